package chart

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// property is a part of the schema of the values.
type property struct {
	Description string              `json:"description"`
	Enum        []string            `json:"enum"`
	Properties  map[string]property `json:"properties"`
}

// readme returns the page that registries show: each value with its default, from the schema.
func readme(schema, values string) (string, error) {
	var root property
	if err := json.Unmarshal([]byte(schema), &root); err != nil {
		return "", fmt.Errorf("parse values.schema.json: %w", err)
	}
	var defaults map[string]any
	if err := yaml.Unmarshal([]byte(values), &defaults); err != nil {
		return "", fmt.Errorf("parse values.yaml: %w", err)
	}
	var w strings.Builder
	w.WriteString("# limpet\n\nLimpet keeps the node and the IP addresses of a pod across rebuilds.\n\n" +
		"    helm install limpet CHART\n    helm test limpet # once your network uses limpet-ipam\n\n" +
		"| value | default | meaning |\n|---|---|---|\n")
	if err := rows(&w, "", root, defaults); err != nil {
		return "", err
	}
	return w.String(), nil
}

// rows writes a row for each property with a default that has no properties with defaults itself.
func rows(w *strings.Builder, path string, p property, defaults map[string]any) error {
	for _, name := range slices.Sorted(maps.Keys(p.Properties)) {
		of, at := p.Properties[name], strings.TrimPrefix(path+"."+name, ".")
		def, there := defaults[name]
		inner, isMap := def.(map[string]any)
		switch {
		case !there:
			continue
		case isMap && of.Properties != nil && name != "resources":
			if err := rows(w, at, of, inner); err != nil {
				return err
			}
			continue
		}
		text, err := json.Marshal(def)
		if err != nil {
			return fmt.Errorf("encode the default of %s: %w", at, err)
		}
		meaning := of.Description
		if name == "enabled" || name == "install" {
			meaning = p.Description + ": " + meaning
		}
		if len(of.Enum) > 0 {
			meaning += ": `" + strings.Join(of.Enum, "`, `") + "`"
		}
		fmt.Fprintf(w, "| `%s` | `%s` | %s |\n", at, text, meaning)
	}
	return nil
}
