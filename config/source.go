package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/txmsg/txmsg-go/txmsg"
)

// Source is one configuration. One goroutine uses it.
type Source struct {
	// Logger is given to every struct that is read and has a nil field of the form Logger *slog.Logger. Defaults to none.
	Logger *slog.Logger

	file    string
	root    *yaml.Node // a mapping
	prefix  string     // of the environment with its underscore, or ""
	environ map[string]string
	claimed map[string]bool // top-level names and names in the environment that a struct has a field for
}

var _ txmsg.Settings = (*Source)(nil)

const backendName = "backend"

// Load reads the file at path and the variables that begin with prefix and an underscore. Without a path there is only the
// environment, without a prefix only the file. An error tells that the file cannot be read, is not YAML, holds more than
// one document or anything but a mapping of names, or names something twice.
func Load(path, prefix string) (*Source, error) {
	s := &Source{root: &yaml.Node{Kind: yaml.MappingNode}, environ: map[string]string{}, claimed: map[string]bool{}}
	if prefix != "" {
		s.prefix = prefix + "_"
		s.readEnvironment(os.Environ())
	}
	if path != "" {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("config: %w", err)
		}
		s.file = filepath.Base(path)
		if err := s.parse(data); err != nil {
			return nil, err
		}
	}
	if node := child(s.root, backendName); node != nil && node.Kind != yaml.ScalarNode {
		return nil, fmt.Errorf("config: %s must be a text (%s line %d)", backendName, s.file, node.Line)
	}
	return s, nil
}

func (s *Source) parse(data []byte) error {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var document, second yaml.Node
	switch err := decoder.Decode(&document); {
	case errors.Is(err, io.EOF):
		return nil // empty, or nothing but comments
	case err != nil:
		return fmt.Errorf("config: %s: %w", s.file, err)
	}
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
		return fmt.Errorf("config: %s must hold one document", s.file)
	}
	root := resolve(document.Content[0])
	if isNull(root) {
		return nil
	}
	if root.Kind != yaml.MappingNode {
		return fmt.Errorf("config: %s must be a mapping of names to values", s.file)
	}
	s.root = root
	return errors.Join(s.duplicates(root, "")...)
}

// duplicates names the keys that stand twice in one mapping anywhere; the YAML package finds them only when it decodes.
func (s *Source) duplicates(node *yaml.Node, path string) (problems []error) {
	switch node.Kind {
	case yaml.MappingNode:
		first := map[string]int{}
		for i := 0; i+1 < len(node.Content); i += 2 {
			key := node.Content[i]
			name := join(path, key.Value)
			if line, ok := first[key.Value]; ok {
				problems = append(problems, fmt.Errorf("config: %s is set twice (%s lines %d and %d)", name, s.file, line, key.Line))
			}
			first[key.Value] = key.Line
			problems = append(problems, s.duplicates(node.Content[i+1], name)...)
		}
	case yaml.SequenceNode:
		for i, item := range node.Content {
			problems = append(problems, s.duplicates(item, fmt.Sprintf("%s[%d]", path, i))...)
		}
	}
	return problems
}

// Backend implements [txmsg.Settings]; it is "" when no backend is set.
func (s *Source) Backend() string {
	if value, ok := s.environ[s.variable(backendName)]; ok {
		return value
	}
	if node := child(s.root, backendName); node != nil {
		return node.Value
	}
	return ""
}

// Decode reads the program's own settings, which stand beside the sections at the top, into the struct that into points to.
// What is not set keeps its value. The names of its fields are the program's: [Source.Unknown] does not
// list them. Names that are not its fields are left for sections; see Unknown. It may be called for several structs.
func (s *Source) Decode(into any) error {
	value, err := structOf(into)
	if err != nil {
		return err
	}
	r := reading{source: s}
	s.claim(value.Type(), "", maxDepth)
	for _, f := range fieldsOf(value.Type()) {
		s.claimed[f.name] = true
		if isMapping(value.FieldByIndex(f.index).Type()) {
			r.refuseVariables(f.name)
		}
	}
	r.fields(s.root, value, "", true)
	return errors.Join(r.problems...)
}

// Section implements [txmsg.Settings]: it reads the section called name into the struct that into points to. What is not set keeps
// its value. A section that a program reads for itself, before it opens a backend, is the program's.
func (s *Source) Section(name string, into any) error {
	value, err := structOf(into)
	if err != nil {
		return err
	}
	r := reading{source: s}
	s.claimed[name] = true
	s.claim(value.Type(), name, maxDepth)
	r.refuseVariables(name)
	r.structure(child(s.root, name), value, name)
	return errors.Join(r.problems...)
}

// Unknown implements [txmsg.Settings]: it names the keys of the file, and the variables under the prefix, that belong neither to
// one of sections nor to anything that was read before. A program that opens no backend calls it itself.
func (s *Source) Unknown(sections ...string) []string {
	var unknown []string
	for i := 0; i+1 < len(s.root.Content); i += 2 {
		name := s.root.Content[i].Value
		if name != backendName && !s.claimed[name] && !slices.Contains(sections, name) {
			unknown = append(unknown, fmt.Sprintf("%s (%s line %d)", name, s.file, s.root.Content[i].Line))
		}
	}
	of := map[string]bool{s.variable(backendName): true}
	for _, section := range sections {
		for _, name := range s.below(section) {
			of[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.environ)) {
		if !of[name] && !s.claimed[name] {
			unknown = append(unknown, name+" (environment)")
		}
	}
	return unknown
}

func structOf(into any) (reflect.Value, error) {
	value := reflect.ValueOf(into)
	if value.Kind() != reflect.Pointer || value.IsNil() || value.Elem().Kind() != reflect.Struct {
		return reflect.Value{}, fmt.Errorf("config: a pointer to a struct is needed, got %T", into)
	}
	return value.Elem(), nil
}
