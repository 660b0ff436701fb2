package apiserver

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestTrim checks that the library comes to the same managedFields from what differs between two states as from the whole.
func TestTrim(t *testing.T) {
	for seed := range uint64(150) {
		p := newPair(t, seed)
		for range 25 {
			p.step()
		}
		for _, name := range pairKinds {
			k := p.ever.Kinds().ByName(name)
			for i, event := range p.ever.Log(k) {
				if event.Type != Deleted {
					p.compareTrimmed(k, event.Object, fmt.Sprintf("seed %d, %s event %d", seed, name, i))
				}
			}
		}
	}
}

func (p *pair) compareTrimmed(k *Kind, stored Object, at string) {
	p.Helper()
	r := rand.New(rand.NewPCG(p.rand.Uint64(), 4))
	live, sent := k.bare(stored), edited(k, stored, r)
	takeManagedFields(k, sent, nil)
	for _, subresource := range []string{"", "status"} {
		manager, err := k.fields.manager(subresource)
		if err != nil {
			p.Fatal(err)
		}
		update := func(live, sent Object) []metav1.ManagedFieldsEntry {
			before, after := &subject{Object: live, entries: stored.GetManagedFields()}, &subject{Object: sent}
			if _, err := manager.Update(before, after, "writer"); err != nil {
				p.Fatalf("%s: %v", at, err)
			}
			for i := range after.entries {
				after.entries[i].Time = nil
			}
			return after.entries
		}
		whole := update(live, sent)
		if diff := cmp.Diff(whole, update(k.trim(live, sent))); diff != "" {
			p.Errorf("%s, %q: what differs gives others than the whole (-whole +differences):\n%s", at, subresource, diff)
		}
	}
}
