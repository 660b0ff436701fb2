package builtin

import (
	"strconv"
	"strings"
)

// since says whether a version ("1.37") has the given minor version or a later one.
func since(version string, minor int) bool {
	_, text, _ := strings.Cut(version, ".")
	n, err := strconv.Atoi(text)
	return err == nil && n >= minor
}

// fill sets a field that is empty.
func fill[T comparable](field *T, value T) {
	var empty T
	if *field == empty {
		*field = value
	}
}

// fillPointer sets a field that is nil to a pointer to value.
func fillPointer[T any](field **T, value T) {
	if *field == nil {
		copied := value // the copy is what goes to the heap, and only here
		*field = &copied
	}
}
