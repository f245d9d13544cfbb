package deploy

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// entry is a file as one reading of the folder saw it. The information is that of a link itself, not of its target.
type entry struct {
	path string
	info fs.FileInfo
}

// listing is one reading of the folder: files and hold markers seen together.
type listing []entry

// read walks the folder. Any error, a dangling link too, spoils the whole reading: nothing is applied in that pass.
// A link to a directory is followed once, not again inside.
func read(folder string) (listing, error) {
	var found listing
	err := filepath.Walk(folder, func(path string, info fs.FileInfo, err error) error {
		if err != nil {
			return err
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			target, err := os.Stat(path)
			if err != nil {
				return err
			}
			if target.IsDir() {
				inner, err := readLinked(path)
				found = append(found, inner...)
				return err
			}
		}
		found = append(found, entry{path, info})
		return nil
	})
	slices.SortFunc(found, func(a, b entry) int { return strings.Compare(a.path, b.path) })
	return found, err
}

// readLinked reads the directory behind a link and names what it finds as if it lay at the link.
func readLinked(link string) (listing, error) {
	real, err := filepath.EvalSymlinks(link)
	if err != nil {
		return nil, err
	}
	var found listing
	err = filepath.Walk(real, func(path string, info fs.FileInfo, err error) error {
		if err != nil {
			return err
		}
		inside, err := filepath.Rel(real, path)
		found = append(found, entry{filepath.Join(link, inside), info})
		return err
	})
	return found, err
}

// manifests leaves out directories, dot files, other endings, and every name for which a marker lies in any directory.
func (l listing) manifests() listing {
	held := map[string]bool{}
	for _, e := range l {
		if name, ok := strings.CutSuffix(e.info.Name(), ".skip"); ok {
			held[name] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(l), func(e entry) bool {
		name := e.info.Name()
		switch strings.ToLower(filepath.Ext(name)) {
		case ".yaml", ".yml", ".json":
			return e.info.IsDir() || strings.HasPrefix(name, ".") || held[name]
		}
		return true
	})
}

// addonName is the file's base name up to the first dot.
func addonName(path string) string {
	name, _, _ := strings.Cut(filepath.Base(path), ".")
	return name
}
