package config

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// override reads a variable of the environment.
func (r *reading) override(name, text string, into reflect.Value) {
	node := &yaml.Node{Kind: yaml.ScalarNode, Value: text}
	switch kind := into.Kind(); {
	case kind == reflect.String || isLeaf(into.Type()):
		node.Tag = "!!str"
	case kind == reflect.Slice && !strings.HasPrefix(strings.TrimSpace(text), "["):
		node = listOf(text, into.Type().Elem())
	case kind == reflect.Slice || kind == reflect.Map:
		var document yaml.Node
		if err := yaml.Unmarshal([]byte(text), &document); err != nil || len(document.Content) != 1 {
			r.problem(name, nil, "must be YAML, got %q (environment)", text)
			return
		}
		node = document.Content[0]
	}
	clearLines(node)
	inner := reading{source: r.source, plain: true}
	inner.node(node, into, name)
	for _, err := range inner.problems {
		r.problems = append(r.problems, fmt.Errorf("%w (environment)", err))
	}
}

// listOf makes a list of texts between commas.
func listOf(text string, item reflect.Type) *yaml.Node {
	list := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		node := &yaml.Node{Kind: yaml.ScalarNode, Value: part}
		if item.Kind() == reflect.String || isLeaf(item) {
			node.Tag = "!!str"
		}
		list.Content = append(list.Content, node)
	}
	return list
}

// clearLines makes problems of node name no line of the file.
func clearLines(node *yaml.Node) {
	node.Line = 0
	for _, item := range node.Content {
		clearLines(item)
	}
}

// node reads a value that is there.
func (r *reading) node(node *yaml.Node, into reflect.Value, path string) {
	node = resolve(node)
	t := into.Type()
	switch {
	case isNull(node):
		r.problem(path, node, "has no value: it must be %s", kindOf(t))
	case t == durationType:
		r.duration(node, into, path)
	case isLeaf(t):
		if err := node.Decode(into.Addr().Interface()); err != nil {
			r.problem(path, node, "is refused: %v", err)
		}
	case t.Kind() == reflect.Pointer:
		target := reflect.New(t.Elem())
		r.node(node, target.Elem(), path)
		into.Set(target)
	case t.Kind() == reflect.Struct:
		r.structure(node, into, path)
	case t.Kind() == reflect.Slice:
		r.list(node, into, path)
	case t.Kind() == reflect.Map && t.Key().Kind() == reflect.String:
		r.table(node, into, path)
	default:
		r.scalar(node, into, path)
	}
}

// scalar reads one value. The YAML package would turn 1.5 into the whole number 1 and yes into true.
func (r *reading) scalar(node *yaml.Node, into reflect.Value, path string) {
	fresh := reflect.New(into.Type())
	if node.Kind != yaml.ScalarNode || !fits(node.ShortTag(), into.Kind()) || node.Decode(fresh.Interface()) != nil {
		r.problem(path, node, "must be %s, got %s", kindOf(into.Type()), describe(node))
		return
	}
	into.Set(fresh.Elem())
}

func fits(tag string, kind reflect.Kind) bool {
	switch {
	case kind == reflect.Bool:
		return tag == "!!bool"
	case kind >= reflect.Int && kind <= reflect.Uint64:
		return tag == "!!int"
	case kind == reflect.Float32 || kind == reflect.Float64:
		return tag == "!!int" || tag == "!!float"
	default:
		return true
	}
}

// duration reads 1.5s, 2h30m and 0.
func (r *reading) duration(node *yaml.Node, into reflect.Value, path string) {
	d, err := time.ParseDuration(node.Value)
	if node.Kind != yaml.ScalarNode || err != nil {
		r.problem(path, node, "must be %s, got %s", kindOf(durationType), describe(node))
		return
	}
	into.SetInt(int64(d))
}

func (r *reading) list(node *yaml.Node, into reflect.Value, path string) {
	if node.Kind != yaml.SequenceNode {
		r.problem(path, node, "must be %s, got %s", kindOf(into.Type()), describe(node))
		return
	}
	list := reflect.MakeSlice(into.Type(), len(node.Content), len(node.Content))
	inner := reading{source: r.source, plain: true}
	for i, item := range node.Content {
		inner.node(item, list.Index(i), fmt.Sprintf("%s[%d]", path, i))
	}
	r.problems = append(r.problems, inner.problems...)
	into.Set(list)
}

func (r *reading) table(node *yaml.Node, into reflect.Value, path string) {
	if node.Kind != yaml.MappingNode {
		r.problem(path, node, "must be %s, got %s", kindOf(into.Type()), describe(node))
		return
	}
	table := reflect.MakeMap(into.Type())
	inner := reading{source: r.source, plain: true}
	for i := 0; i+1 < len(node.Content); i += 2 {
		value := reflect.New(into.Type().Elem()).Elem()
		inner.node(node.Content[i+1], value, join(path, node.Content[i].Value))
		table.SetMapIndex(reflect.ValueOf(node.Content[i].Value).Convert(into.Type().Key()), value)
	}
	r.problems = append(r.problems, inner.problems...)
	into.Set(table)
}

func kindOf(t reflect.Type) string {
	switch {
	case t == durationType:
		return "a duration such as 1.5s or 2h30m"
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() >= reflect.Int && t.Kind() <= reflect.Uint64:
		return fmt.Sprintf("a whole number that fits in %s", t.Kind())
	case t.Kind() == reflect.Float32 || t.Kind() == reflect.Float64:
		return "a number"
	case t.Kind() == reflect.String:
		return "a text"
	case t.Kind() == reflect.Slice:
		return "a list"
	case t.Kind() == reflect.Map:
		return "a mapping"
	case t.Kind() == reflect.Pointer:
		return kindOf(t.Elem())
	default:
		return "a " + t.String()
	}
}

func describe(node *yaml.Node) string {
	switch node.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	default:
		return fmt.Sprintf("%q", node.Value)
	}
}
