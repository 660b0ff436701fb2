package scenarios

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// maxFileSize bounds a scenario file and each file it refers to, in bytes. An object in etcd has at most 1.5 MiB.
const maxFileSize = 10 << 20

// tree is the tree of files that a scenario may refer to: the repository that holds it.
type tree struct {
	fsys fs.FS
	// folder of the scenario file, which paths in it are relative to.
	folder string
	// display names a file of the tree as the user would.
	display func(name string) string
	// close ends the use of the tree.
	close func()
	// elsewhere opens the tree of a file outside, by its path from the file that was opened. It is nil where the tree is a
	// repository: what is in one refers to nothing outside.
	elsewhere func(reference string) (*tree, string, error)
	// digest is fed with all that is read.
	digest hash.Hash
}

// openTree opens the repository that holds a file, and returns the file's name in it. The file may be a symbolic link.
func openTree(name string) (*tree, string, error) {
	resolved, err := filepath.EvalSymlinks(name)
	if err != nil {
		return nil, "", newError(name, []Diagnostic{{File: name, Message: readError(err).Error()}})
	}
	if resolved, err = filepath.Abs(resolved); err != nil {
		return nil, "", fmt.Errorf("file %s: %w", name, err)
	}
	folder, isRepository := repository(resolved)
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, "", fmt.Errorf("file %s: %w", name, err)
	}
	relative, err := filepath.Rel(root.Name(), resolved)
	if err != nil {
		return nil, "", fmt.Errorf("file %s: %w", name, err)
	}
	relative = filepath.ToSlash(relative)
	display := func(file string) string {
		if file == relative {
			return name
		}
		fromFile, err := filepath.Rel(filepath.Dir(relative), file)
		if err != nil {
			return file
		}
		return filepath.Join(filepath.Dir(name), fromFile)
	}
	t := &tree{fsys: root.FS(), folder: path.Dir(relative), display: display, close: func() { _ = root.Close() }, digest: sha256.New()}
	if !isRepository {
		t.elsewhere = func(reference string) (*tree, string, error) {
			return openTree(filepath.Join(filepath.Dir(resolved), filepath.FromSlash(reference)))
		}
	}
	return t, relative, nil
}

// treeOf returns a tree of which all files count as the repository, for a file in it.
func treeOf(fsys fs.FS, name string) *tree {
	display := func(file string) string { return file }
	return &tree{fsys: fsys, folder: path.Dir(name), display: display, close: func() {}, digest: sha256.New()}
}

// at returns the tree for a file that a file of it refers to.
func (t *tree) at(name string) *tree {
	return &tree{fsys: t.fsys, folder: path.Dir(name), display: t.display, close: t.close, digest: t.digest}
}

// read returns a file's content. Its errors say what is wrong and not which file it is.
func (t *tree) read(name string) ([]byte, error) {
	info, err := fs.Stat(t.fsys, name) // opening a pipe would wait for its other end
	if err != nil {
		return nil, readError(err)
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file: name a YAML file")
	}
	if info.Size() > maxFileSize {
		return nil, tooBig(info.Size())
	}
	file, err := t.fsys.Open(name)
	if err != nil {
		return nil, readError(err)
	}
	defer func() { _ = file.Close() }()
	data, err := io.ReadAll(io.LimitReader(file, maxFileSize+1))
	if err != nil {
		return nil, readError(err)
	}
	if len(data) > maxFileSize { // it grew, or its size was not known
		return nil, tooBig(int64(len(data)))
	}
	_, _ = fmt.Fprintf(t.digest, "%s %d\n", path.Base(name), len(data)) // a hash takes everything
	_, _ = t.digest.Write(data)
	return data, nil
}

func tooBig(size int64) error {
	return fmt.Errorf("too big: %d MiB, and %d MiB is the most; split it, or keep only the objects that the scenario needs",
		(size+1<<20-1)>>20, maxFileSize>>20)
}

// readError drops the name of the file from an error, which is an absolute one where its reader may not expect it.
func readError(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return errors.New("no such file")
	}
	if pathError, ok := errors.AsType[*fs.PathError](err); ok {
		err = pathError.Err
	}
	return fmt.Errorf("cannot be read: %w", err)
}

// errOutside says that a path leaves the tree.
var errOutside = errors.New("outside the repository that holds the scenario: keep the file in the repository")

// resolve returns the files that a path in the scenario file stands for. Its errors speak of the path.
func (t *tree) resolve(reference string) ([]string, error) {
	if path.IsAbs(reference) || filepath.IsAbs(reference) {
		return nil, errors.New("an absolute path: write it relative to the scenario file")
	}
	name := path.Join(t.folder, reference)
	if name == ".." || strings.HasPrefix(name, "../") {
		return nil, errOutside
	}
	info, err := fs.Stat(t.fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New("no such file" + t.similar(name, reference))
	}
	if err != nil { // a symbolic link that leaves the repository ends here, too
		return nil, fmt.Errorf("%w; a path and its symbolic links stay inside the repository that holds the scenario", readError(err))
	}
	if !info.IsDir() {
		return []string{name}, nil
	}
	return t.manifests(name)
}

// manifests returns the files of a directory that hold objects, in the order of their names.
func (t *tree) manifests(directory string) ([]string, error) {
	entries, err := fs.ReadDir(t.fsys, directory)
	if err != nil {
		return nil, readError(err)
	}
	var names []string
	for _, entry := range entries {
		base := strings.TrimSuffix(entry.Name(), path.Ext(entry.Name()))
		isYAML := slices.Contains([]string{".yaml", ".yml", ".json"}, path.Ext(entry.Name()))
		if isYAML && !entry.IsDir() && base != "kustomization" && base != "kustomizeconfig" {
			names = append(names, path.Join(directory, entry.Name()))
		}
	}
	if len(names) == 0 {
		return nil, errors.New("a directory without *.yaml, *.yml or *.json files")
	}
	return names, nil
}

// similar returns a hint with the file of the same folder that a missing one may have been meant to be.
func (t *tree) similar(name, reference string) string {
	entries, err := fs.ReadDir(t.fsys, path.Dir(name))
	if err != nil {
		return ""
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	if best := near(path.Base(name), names); len(best) > 0 {
		return fmt.Sprintf(", did you mean %q?", path.Join(path.Dir(reference), best[0]))
	}
	return ""
}

// repository returns the folder that paths of a scenario must stay inside: the nearest one above it that holds .git or
// go.mod, which is a repository. Where there is none, it is the scenario's own folder.
func repository(scenario string) (root string, isRepository bool) {
	folder := filepath.Dir(scenario)
	for dir := folder; ; dir = filepath.Dir(dir) {
		for _, marker := range []string{".git", "go.mod"} {
			if _, err := os.Lstat(filepath.Join(dir, marker)); err == nil {
				return dir, true
			}
		}
		if dir == filepath.Dir(dir) {
			return folder, false
		}
	}
}
