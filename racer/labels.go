package racer

import "maps"

// cloned returns a copy of labels or annotations to write to, also where there are none.
func cloned(set map[string]string) map[string]string {
	if set == nil {
		return map[string]string{}
	}
	return maps.Clone(set)
}

// withEntry returns a copy of labels or annotations with one more.
func withEntry(set map[string]string, key, value string) map[string]string {
	set = cloned(set)
	set[key] = value
	return set
}
