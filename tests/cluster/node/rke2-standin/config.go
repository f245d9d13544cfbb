package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"windrow.dev/tests/cluster/node/config"
)

// settings is the merged configuration: key to values, in the order of the files.
type settings map[string][]string

// readSettings merges config.yaml and config.yaml.d in byte order as RKE2 does. Dot files count; only the endings .yaml
// and .yml do.
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
	var merged config.Merged
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if err := merged.Add(content); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	return merged.Flags(), nil
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
