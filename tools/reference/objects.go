package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// schema is what the page says of a schema of the API server.
type schema struct {
	Type                 string             `json:"type"`
	Format               string             `json:"format"`
	Description          string             `json:"description"`
	Properties           map[string]*schema `json:"properties"`
	AdditionalProperties *schema            `json:"additionalProperties"`
	Items                *schema            `json:"items"`
	Required             []string           `json:"required"`
	Default              any                `json:"default"`
	Enum                 []any              `json:"enum"`
	Minimum              *int64             `json:"minimum"`
	Maximum              *int64             `json:"maximum"`
	MaxLength            *int64             `json:"maxLength"`
	MaxItems             *int64             `json:"maxItems"`
	MaxProperties        *int64             `json:"maxProperties"`
	IntOrString          bool               `json:"x-kubernetes-int-or-string"`
	MapType              string             `json:"x-kubernetes-map-type"`
	Validations          []struct {
		Message string `json:"message"`
	} `json:"x-kubernetes-validations"`
}

// definition is a CustomResourceDefinition.
type definition struct {
	Spec struct {
		Group string `json:"group"`
		Names struct {
			Kind string `json:"kind"`
		} `json:"names"`
		Versions []struct {
			Name    string `json:"name"`
			Storage bool   `json:"storage"`
			Schema  struct {
				OpenAPI *schema `json:"openAPIV3Schema"`
			} `json:"schema"`
		} `json:"versions"`
	} `json:"spec"`
}

// kubernetes are fields whose own fields Kubernetes defines.
var kubernetes = []string{"conditions", "tolerations", "preferredNodeSelector"}

// objects returns the fields of all kinds, in the version in which the API server stores them.
func objects(root string) (all []configuration, err error) {
	var paths []string
	for _, pattern := range []string{"deploy/crds/*_*.yaml", "deploy/node-network/*_*.yaml"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(found) == 0 {
			return nil, errors.Join(err, fmt.Errorf("find CRDs: no file is named %s", pattern))
		}
		paths = append(paths, found...)
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read CRD: %w", err)
		}
		var d definition
		if err := yaml.Unmarshal(data, &d); err != nil {
			return nil, fmt.Errorf("read CRD %s: %w", path, err)
		}
		o, err := object(d)
		if err != nil {
			return nil, fmt.Errorf("CRD %s: %w", path, err)
		}
		all = append(all, o)
	}
	slices.SortFunc(all, func(a, b configuration) int { return strings.Compare(a.title, b.title) })
	return all, nil
}

// object returns the fields of one kind. Each needs a description.
func object(d definition) (configuration, error) {
	for _, v := range d.Spec.Versions {
		if !v.Storage {
			continue
		}
		s := v.Schema.OpenAPI
		text := []string{fmt.Sprintf("`%s/%s`.", d.Spec.Group, v.Name), s.Description}
		for _, r := range s.Validations {
			text = append(text, fmt.Sprintf("Rule: %s.", r.Message))
		}
		for _, metadata := range []string{"apiVersion", "kind", "metadata"} {
			delete(s.Properties, metadata)
		}
		fields, err := s.fields("")
		return configuration{d.Spec.Names.Kind, strings.Join(text, " "), fields}, err
	}
	return configuration{}, errors.New("no version is stored")
}

// fields returns the fields of an object, and of the objects in it.
func (s *schema) fields(under string) (all []field, err error) {
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		p := s.Properties[name]
		if p.Description == "" {
			err = errors.Join(err, fmt.Errorf("the field %s%s has no description", under, name))
		}
		all = append(all, field{under + name, p.kind(), p.rules(slices.Contains(s.Required, name)), p.meaning(name)})
		if slices.Contains(kubernetes, name) || p.MapType == "atomic" && p.Properties != nil {
			continue
		}
		inner, suffix := p.inner()
		below, problem := inner.fields(under + name + suffix + ".")
		all, err = append(all, below...), errors.Join(err, problem)
	}
	return all, err
}

// writer matches who writes a field, which the page says once for all fields.
var writer = regexp.MustCompile(`\s*Written by the (?:user|controller|agent of the node, like all fields of the status)(?:\.|$|; \w)`)

// meaning returns the description without the name of the field, which stands before it in the page.
func (s *schema) meaning(name string) string {
	text := writer.ReplaceAllStringFunc(untitled(s.Description, name), func(match string) string {
		if strings.Contains(match, ";") { // a further sentence begins
			return " " + strings.ToUpper(match[len(match)-1:])
		}
		return ""
	})
	if strings.HasPrefix(text, "of ") { // "name of the workload"
		return name + " " + text
	}
	return text
}

// inner returns the schema inside lists and maps, and how its path goes on.
func (s *schema) inner() (*schema, string) {
	switch {
	case s.Items != nil:
		inner, suffix := s.Items.inner()
		if s.Items.MapType == "atomic" {
			return &schema{}, ""
		}
		return inner, "[]" + suffix
	case s.AdditionalProperties != nil:
		inner, suffix := s.AdditionalProperties.inner()
		return inner, ".*" + suffix
	}
	return s, ""
}

func (s *schema) kind() string {
	switch {
	case s.IntOrString:
		return "integer or string"
	case s.Items != nil:
		return "list of " + plural(s.Items.kind())
	case s.AdditionalProperties != nil:
		return "map of " + plural(s.AdditionalProperties.kind())
	case s.Format == "date-time":
		return "time"
	}
	return s.Type
}

// rules says which values the API server takes, and which it sets.
func (s *schema) rules(required bool) string {
	var all []string
	if required {
		all = append(all, "required")
	}
	if s.Default != nil {
		all = append(all, fmt.Sprintf("default `%v`", s.Default))
	}
	if len(s.Enum) > 0 {
		var words []string
		for _, e := range s.Enum {
			words = append(words, fmt.Sprintf("`%v`", e))
		}
		all = append(all, "one of "+strings.ReplaceAll(strings.Join(words, ", "), "``", `""`))
	}
	for _, bound := range []struct {
		of   *int64
		text string
	}{
		{s.Minimum, "at least %d"},
		{s.Maximum, "at most %d"},
		{s.MaxLength, "at most %d characters"},
		{s.MaxItems, "at most %d entries"},
		{s.MaxProperties, "at most %d entries"},
	} {
		if bound.of != nil {
			all = append(all, fmt.Sprintf(bound.text, *bound.of))
		}
	}
	for _, r := range s.Validations {
		all = append(all, r.Message)
	}
	return strings.Join(all, "; ")
}
