package config

import (
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// field is a field of a struct that can be set.
type field struct {
	name     string
	index    []int
	required bool
}

// fieldsOf lists the fields of a struct by the rules of the YAML package, those of inlined and embedded structs with their own
// names.
func fieldsOf(t reflect.Type) []field {
	var fields []field
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if name == "-" || !f.IsExported() {
			continue
		}
		if slices.Contains(strings.Split(options, ","), "inline") && f.Type.Kind() == reflect.Struct {
			for _, inner := range fieldsOf(f.Type) {
				inner.index = append([]int{i}, inner.index...)
				fields = append(fields, inner)
			}
			continue
		}
		if name == "" {
			name = strings.ToLower(f.Name)
		}
		fields = append(fields, field{name: name, index: []int{i}, required: f.Tag.Get("config") == "required"})
	}
	return fields
}

func names(fields []field) string {
	if len(fields) == 0 {
		return "nothing"
	}
	all := make([]string, len(fields))
	for i, f := range fields {
		all[i] = f.name
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

var loggerType = reflect.TypeFor[*slog.Logger]()

// giveLogger sets the field Logger of a struct, or of one embedded in it, if it is there and nil.
func giveLogger(value reflect.Value, logger *slog.Logger) {
	f, ok := value.Type().FieldByName("Logger")
	if ok && f.Type == loggerType && f.IsExported() && logger != nil {
		if logging, err := value.FieldByIndexErr(f.Index); err == nil && logging.IsNil() {
			logging.Set(reflect.ValueOf(logger))
		}
	}
}

// child returns the value of a key of a mapping, or nil.
func child(mapping *yaml.Node, name string) *yaml.Node {
	if mapping == nil || mapping.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == name {
			return resolve(mapping.Content[i+1])
		}
	}
	return nil
}

// resolve follows an alias to its anchor.
func resolve(node *yaml.Node) *yaml.Node {
	if node != nil && node.Kind == yaml.AliasNode {
		return node.Alias
	}
	return node
}

func isNull(node *yaml.Node) bool { return node.Kind == yaml.ScalarNode && node.ShortTag() == "!!null" }

func join(path, name string) string {
	if path == "" {
		return name
	}
	return fmt.Sprintf("%s.%s", path, name)
}
