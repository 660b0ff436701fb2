package apiserver

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strings"
)

// CompareBodies orders two requests of the same verb and resource by what they send, so that requests which differ in
// nothing else have an order that does not depend on who came first.
func CompareBodies(a, b *Request) int {
	return cmp.Or(
		strings.Compare(string(a.PatchType), string(b.PatchType)),
		bytes.Compare(a.PatchData, b.PatchData),
		bytes.Compare(bodyText(a), bodyText(b)),
	)
}

// bodyText returns all that a request sends besides a patch, as JSON.
func bodyText(r *Request) []byte {
	text, err := json.Marshal([]any{r.Object, r.Delete, r.DryRun, r.FieldManager, r.Force, r.ResourceVersion, r.Limit, r.Continue})
	if err != nil {
		return nil // what cannot be written as JSON cannot be sent
	}
	for _, selector := range []interface{ String() string }{r.LabelSelector, r.FieldSelector} {
		if selector != nil {
			text = append(text, selector.String()...)
		}
	}
	return text
}
