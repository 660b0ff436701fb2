package apiserver

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// TestLocks checks which bodies of patches carry a lock, where the server's answer alone does not tell.
func TestLocks(t *testing.T) {
	tests := []struct {
		patchType types.PatchType
		body      string
		want      string
	}{
		{types.MergePatchType, `{"metadata":{"resourceVersion":"7"}}`, "7"},
		{types.ApplyPatchType, `{"metadata":{"resourceVersion":"7"}}`, "7"},
		{types.MergePatchType, `{"metadata":{"resourceVersion":"0"}}`, ""},
		{types.MergePatchType, `{"spec":{"resourceVersion":"7"}}`, ""},
		{types.MergePatchType, `{"metadata":`, ""},
		{types.JSONPatchType, `[{"op":"add","path":"/metadata/resourceVersion","value":"7"}]`, "7"},
		{types.JSONPatchType, `[{"op":"test","path":"/metadata/resourceVersion","value":"7"}]`, ""},
		{types.JSONPatchType, `[{"op":"remove","path":"/metadata/resourceVersion"}]`, ""},
		{types.JSONPatchType, `[{"op":"add","path":"/metadata/uid","value":"7"}]`, ""},
		{types.JSONPatchType, `{"metadata":{"resourceVersion":"7"}}`, ""},
	}
	for _, test := range tests {
		r := Request{Verb: schedule.Patch, PatchType: test.patchType, PatchData: []byte(test.body)}
		if got := r.Lock(); got != test.want {
			t.Errorf("%s %s insists on %q, want %q", test.patchType, test.body, got, test.want)
		}
	}
}
