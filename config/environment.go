package config

import (
	"reflect"
	"slices"
	"strings"
)

// maxDepth ends the claims of a type that holds itself.
const maxDepth = 8

func (s *Source) readEnvironment(environ []string) {
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		if strings.HasPrefix(name, s.prefix) && !strings.HasPrefix(name, s.prefix+"TEST_") {
			s.environ[name] = value
		}
	}
}

// variable is the name in the environment of the setting at path.
func (s *Source) variable(path string) string {
	return s.prefix + strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(path))
}

// below lists the variables that are set and begin with that of path and an underscore.
func (s *Source) below(path string) []string {
	var names []string
	for name := range s.environ {
		if strings.HasPrefix(name, s.variable(path)+"_") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// claim remembers the variables that stand for the values of a struct at path. It goes before the reading: of two structs side by side, one
// can have the name of a field of the other as its beginning.
func (s *Source) claim(t reflect.Type, path string, depth int) {
	for _, f := range fieldsOf(t) {
		name, ft := join(path, f.name), t.FieldByIndex(f.index).Type
		if !isMapping(ft) {
			s.claimed[s.variable(name)] = true
		} else if depth > 0 {
			s.claim(structType(ft), name, depth-1)
		}
	}
}

// isMapping reports whether a field is read field by field.
func isMapping(t reflect.Type) bool {
	return structType(t).Kind() == reflect.Struct && !isLeaf(t)
}

func structType(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}

// refuseVariables names the variables below path that no field stands for.
func (r *reading) refuseVariables(path string) {
	var allowed []string
	below := r.source.variable(path) + "_"
	for name := range r.source.claimed {
		if strings.HasPrefix(name, below) {
			allowed = append(allowed, name)
		}
	}
	slices.Sort(allowed)
	for _, name := range r.source.below(path) {
		if !r.source.claimed[name] {
			r.source.claimed[name] = true // named once
			r.problem(name, nil, "is unknown (environment), there are %s", strings.Join(allowed, ", "))
		}
	}
}
