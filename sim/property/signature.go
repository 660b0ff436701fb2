package property

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

var (
	uidPattern  = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	timePattern = regexp.MustCompile(`\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})`)
	// revisionPattern finds resource versions inside objects that are printed whole.
	revisionPattern = regexp.MustCompile(`"resourceVersion": "\d+"`)
)

// Signature returns a text that is the same for runs which broke the same properties in the same way: the names of the
// broken properties, sorted, with the values their rules read. UIDs are replaced by ranks in the order they appear in,
// so that equal ones stay equal and different ones different; resource versions and times are left out. It is empty if
// no property is broken. What detectors found counts where no property is broken: else it is one more way to say the same.
func Signature(verdicts []Verdict) string {
	broken := slices.DeleteFunc(slices.Clone(verdicts), func(v Verdict) bool { return v.Status != Broken })
	detected := func(v Verdict) bool { return v.Property.Type == Detector }
	if properties := slices.DeleteFunc(slices.Clone(broken), detected); len(properties) > 0 {
		broken = properties
	}
	slices.SortStableFunc(broken, func(a, b Verdict) int { return strings.Compare(a.Property.Name, b.Property.Name) })
	ranks := map[string]string{}
	var parts []string
	for _, v := range broken {
		var values []string
		for _, value := range v.Values {
			values = append(values, value.Path+"="+canonical(value, ranks))
		}
		parts = append(parts, v.Property.Name+"{"+strings.Join(values, ", ")+"}")
	}
	return strings.Join(parts, "; ")
}

func canonical(v Value, ranks map[string]string) string {
	rank := func(uid string) string {
		if ranks[uid] == "" {
			ranks[uid] = fmt.Sprintf("uid-%d", len(ranks)+1)
		}
		return ranks[uid]
	}
	switch {
	case v.Value == "absent":
		return v.Value
	case strings.HasSuffix(v.Path, ".resourceVersion"):
		return "revision"
	case strings.HasSuffix(v.Path, ".uid"):
		return rank(strings.Trim(v.Value, `"`))
	}
	text := uidPattern.ReplaceAllStringFunc(v.Value, rank)
	text = timePattern.ReplaceAllString(text, "time")
	return revisionPattern.ReplaceAllString(text, `"resourceVersion": revision`)
}
