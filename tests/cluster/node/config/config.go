// Package config merges RKE2's configuration files.
//
// k3s cannot be fetched as a Go module: what it does with the pairs (pkg/configfilearg) is written here from its
// behaviour. What reads them, and makes texts of values, are its libraries: what they refuse stops RKE2 too.
package config

import (
	"strings"

	"github.com/rancher/wrangler/v3/pkg/data/convert"
	"gopkg.in/yaml.v2"
)

// Merged is what the files say together.
type Merged struct {
	held map[string]any
}

// Add reads the next file: a plain key replaces what earlier files gave, "key+" appends to it.
func (m *Merged) Add(content []byte) error {
	var pairs yaml.MapSlice
	if err := yaml.Unmarshal(content, &pairs); err != nil {
		return err
	}
	if m.held == nil {
		m.held = map[string]any{}
	}
	for _, pair := range pairs {
		key, appends := strings.CutSuffix(convert.ToString(pair.Key), "+")
		if before, there := m.held[key]; there && appends {
			m.held[key] = append(asList(before), asList(pair.Value)...)
		} else {
			m.held[key] = pair.Value
		}
	}
	return nil
}

// Flags gives each key with its texts: a scalar is one, a list one per item, nothing is an empty one.
func (m *Merged) Flags() map[string][]string {
	flags := map[string][]string{}
	for key, value := range m.held {
		list, ok := value.([]any)
		if !ok {
			list = []any{value}
		}
		texts := make([]string, 0, len(list))
		for _, item := range list {
			texts = append(texts, convert.ToString(item))
		}
		flags[key] = texts
	}
	return flags
}

// asList is what a value becomes when something is appended to it, or it to something.
func asList(value any) []any {
	switch value := value.(type) {
	case string:
		return []any{value}
	case []any:
		return value
	}
	text := convert.ToString(value)
	if text == "" {
		return nil
	}
	return []any{text}
}
