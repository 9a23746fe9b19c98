package config

import (
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"time"

	"go.yaml.in/yaml/v3"
)

// reading reads one struct and collects what is wrong.
type reading struct {
	source   *Source
	plain    bool // inside a list or a mapping, where the environment reaches nothing
	problems []error
}

// problem notes what the setting at path must be. node tells where; without one it is the environment or nowhere.
func (r *reading) problem(path string, node *yaml.Node, format string, args ...any) {
	text := fmt.Sprintf("config: %s %s", path, fmt.Sprintf(format, args...))
	if node != nil && node.Line > 0 {
		text += fmt.Sprintf(" (%s line %d)", r.source.file, node.Line)
	}
	r.problems = append(r.problems, fmt.Errorf("%s", text))
}

// structure reads a mapping into a struct. A missing one is empty.
func (r *reading) structure(node *yaml.Node, value reflect.Value, path string) {
	if node != nil && node.Kind != yaml.MappingNode && !isNull(node) {
		r.problem(path, node, "must be a mapping with %s, got %s", names(fieldsOf(value.Type())), describe(node))
		return
	}
	r.fields(node, value, path, false)
}

// fields reads the fields of a struct. At the top others than its own may stand beside them.
func (r *reading) fields(node *yaml.Node, value reflect.Value, path string, top bool) {
	before := len(r.problems)
	fields := fieldsOf(value.Type())
	for _, f := range fields {
		r.field(f, child(node, f.name), value.FieldByIndex(f.index), join(path, f.name))
	}
	if !top {
		r.refuseKeys(node, fields, path)
	}
	giveLogger(value, r.source.Logger)
	if len(r.problems) == before {
		r.validate(value, path)
	}
}

func (r *reading) field(f field, node *yaml.Node, into reflect.Value, path string) {
	before := len(r.problems)
	set := r.value(node, into, path)
	if !f.required || len(r.problems) > before || !into.IsZero() {
		return
	}
	switch into.Kind() {
	case reflect.String, reflect.Slice, reflect.Map, reflect.Struct, reflect.Pointer:
		set = false // 0 and false can be meant, but not these
	}
	switch {
	case set:
	case r.plain || r.source.prefix == "":
		r.problem(path, node, "is required")
	default:
		r.problem(path, node, "is required, in the file or as %s", r.source.variable(path))
	}
}

// refuseKeys names the keys that no field stands for.
func (r *reading) refuseKeys(node *yaml.Node, fields []field, path string) {
	if node == nil || node.Kind != yaml.MappingNode {
		return
	}
	known := map[string]bool{}
	for _, f := range fields {
		known[f.name] = true
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		if key := node.Content[i]; !known[key.Value] {
			r.problem(join(path, key.Value), key, "is unknown, there are %s", names(fields))
		}
	}
}

// validate asks the struct itself.
func (r *reading) validate(value reflect.Value, path string) {
	validator, ok := value.Addr().Interface().(interface{ Validate() error })
	if !ok {
		return
	}
	err := validator.Validate()
	if err == nil {
		return
	}
	problems := []error{err}
	if several, ok := err.(interface{ Unwrap() []error }); ok && errors.Join(several.Unwrap()...).Error() == err.Error() {
		problems = several.Unwrap() // joined, with no text of its own
	}
	for _, problem := range problems {
		if path != "" {
			problem = fmt.Errorf("%s: %w", path, problem)
		}
		r.problems = append(r.problems, fmt.Errorf("config: %w", problem))
	}
}

// value reads the setting at path and reports whether it is set.
func (r *reading) value(node *yaml.Node, into reflect.Value, path string) (set bool) {
	t := into.Type()
	switch {
	case t.Kind() == reflect.Pointer && !isLeaf(t):
		return r.pointer(node, into, path)
	case t.Kind() == reflect.Struct && !isLeaf(t):
		r.structure(node, into, path)
		return node != nil || r.hasBelow(path)
	}
	name := r.source.variable(path)
	if text, ok := r.source.environ[name]; ok && !r.plain {
		r.override(name, text, into)
		return true
	}
	if node == nil {
		return false
	}
	r.node(node, into, path)
	return true
}

func (r *reading) pointer(node *yaml.Node, into reflect.Value, path string) (set bool) {
	if node == nil && isMapping(into.Type()) && !r.hasBelow(path) {
		return false // what is required in it is not required when it is not there
	}
	target := reflect.New(into.Type().Elem())
	if !into.IsNil() {
		target.Elem().Set(into.Elem())
	}
	if set = r.value(node, target.Elem(), path); set {
		into.Set(target)
	}
	return set
}

func (r *reading) hasBelow(path string) bool {
	return !r.plain && len(r.source.below(path)) > 0
}

var (
	durationType        = reflect.TypeFor[time.Duration]()
	unmarshalerType     = reflect.TypeFor[yaml.Unmarshaler]()
	textUnmarshalerType = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// isLeaf reports whether a type reads itself from one value.
func isLeaf(t reflect.Type) bool {
	if t.Kind() != reflect.Pointer {
		t = reflect.PointerTo(t)
	}
	return t.Implements(unmarshalerType) || t.Implements(textUnmarshalerType)
}
