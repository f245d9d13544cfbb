package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gopkg.in/yaml.v2"
)

// settings is the merged configuration: key to values, in the order of the files.
type settings map[string][]string

// readSettings merges config.yaml and config.yaml.d in byte order as RKE2 does: a plain key replaces what earlier files
// gave, "key+" appends to it. Dot files count; only the endings .yaml and .yml do. yaml.v2 is RKE2's reader here, so
// what it refuses stops RKE2 too.
func readSettings(path string) (settings, error) {
	var files []string
	if _, err := os.Stat(path); err == nil {
		files = append(files, path)
	}
	entries, err := os.ReadDir(path + ".d")
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	for _, e := range entries {
		ending := strings.ToLower(filepath.Ext(e.Name()))
		if !e.IsDir() && (ending == ".yaml" || ending == ".yml") {
			files = append(files, filepath.Join(path+".d", e.Name()))
		}
	}
	merged := settings{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var pairs yaml.MapSlice
		if err := yaml.Unmarshal(content, &pairs); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		for _, pair := range pairs {
			key, adds := strings.CutSuffix(fmt.Sprint(pair.Key), "+")
			if !adds {
				merged[key] = nil
			}
			merged[key] = append(merged[key], texts(pair.Value)...)
		}
	}
	return merged, nil
}

// texts gives a value as the flags' texts: a scalar is one, a list one per item, nothing is an empty one.
func texts(value any) []string {
	switch value := value.(type) {
	case nil:
		return []string{""}
	case []any:
		all := []string{}
		for _, item := range value {
			all = append(all, texts(item)[0])
		}
		return all
	default:
		return []string{fmt.Sprint(value)}
	}
}

// arguments joins a component's defaults with the user's `…-arg` items: "name=value" drops the default, "name+=value"
// comes after it, "name-=value" before it; what the user repeats stays repeated, and the whole is sorted by flag.
func arguments(defaults map[string]string, items []string) []string {
	values := map[string][]string{}
	for flag, value := range defaults {
		values[flag] = []string{value}
	}
	touched := map[string]bool{}
	for _, item := range items {
		flag, value, given := strings.Cut(strings.TrimPrefix(item, "--"), "=")
		if !given {
			value = "true"
		}
		name := strings.TrimRight(flag, "+-")
		switch {
		case strings.HasSuffix(flag, "+"):
			values[name] = append(values[name], value)
		case strings.HasSuffix(flag, "-"):
			values[name] = append([]string{value}, values[name]...)
		case touched[name]:
			values[name] = append(values[name], value)
		default:
			values[name] = []string{value}
		}
		touched[name] = true
	}
	var flags []string
	for name := range values {
		flags = append(flags, name)
	}
	slices.Sort(flags)
	var all []string
	for _, name := range flags {
		for _, value := range values[name] {
			all = append(all, "--"+name+"="+value)
		}
	}
	return all
}
