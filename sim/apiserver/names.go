package apiserver

import (
	"fmt"
	"maps"
	"strconv"

	"github.com/cespare/xxhash/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A real server draws UIDs and name suffixes at random. Here they are derived from the role of what is named:
//
//   - a UID from kind, namespace, name, and how many objects of that name there have been;
//   - a generated name from its prefix, kind, namespace, controlling owner, and how many there have been of those.
//
// So they depend neither on a seed nor on what other actors did in the meantime: two schedules that make the same objects
// in a different order agree on every UID. States and histories can then be compared, hashed and pruned as they are, and a
// schedule that names a generated Pod still finds it after an unrelated change. A drawn number would make every schedule
// its own world. What is lost is surprise: no two objects ever share a UID here, and none ever sorts unluckily by UID.

// counter counts what has happened so far under a key, on top of the counts of a snapshot, which it shares.
type counter struct {
	base, own map[string]int
}

func (c *counter) count(key string) int {
	if n, ok := c.own[key]; ok {
		return n
	}
	return c.base[key]
}

func (c *counter) set(key string, n int) {
	if c.own == nil {
		c.own = map[string]int{}
	}
	c.own[key] = n
}

// flatten returns all counts in one map.
func (c *counter) flatten() map[string]int {
	flat := maps.Clone(c.base)
	if flat == nil {
		flat = map[string]int{}
	}
	maps.Copy(flat, c.own)
	return flat
}

// uidKey is the role of an object: what its incarnations are counted by.
func uidKey(k *Kind, namespace, name string) string {
	return k.Group + "/" + k.Kind + "/" + namespace + "/" + name
}

// uidFor returns the UID of the n-th object, from 0, of a role: a hash in the shape of a version 4 UUID.
func uidFor(key string, n int) types.UID {
	var high, low xxhash.Digest
	seed := strconv.Itoa(n)
	high.ResetWithSeed(1)
	low.ResetWithSeed(2)
	for _, digest := range []*xxhash.Digest{&high, &low} {
		_, _ = digest.WriteString(key)
		_, _ = digest.WriteString("#")
		_, _ = digest.WriteString(seed)
	}
	return formatUID(high.Sum64(), low.Sum64())
}

// formatUID prints 128 bits as a version 4 UUID, RFC 9562 section 5.4.
func formatUID(high, low uint64) types.UID {
	high = high&^0xf000 | 0x4000
	low = low&^(3<<62) | 2<<62
	return types.UID(fmt.Sprintf("%08x-%04x-%04x-%04x-%012x", high>>32, high>>16&0xffff, high&0xffff, low>>48, low&(1<<48-1)))
}

// nameAlphabet is the one of k8s.io/apimachinery/pkg/util/rand: no vowels and nothing that reads like one.
const nameAlphabet = "bcdfghjklmnpqrstvwxz2456789"

const (
	maxNameLength    = 63
	nameSuffixLength = 5
	nameAttempts     = 8 // maxNameGenerationCreateAttempts of k8s.io/apiserver/pkg/registry/generic/registry/store.go
)

// generatedName returns the n-th name, from 0, for a role; k8s.io/apiserver/pkg/storage/names/generate.go, v1.36.
func generatedName(base, role string, n int) string {
	base = base[:min(len(base), maxNameLength-nameSuffixLength)]
	hash := xxhash.Sum64String(role + "#" + strconv.Itoa(n))
	suffix := make([]byte, nameSuffixLength)
	for i := range suffix {
		suffix[i] = nameAlphabet[hash%uint64(len(nameAlphabet))]
		hash /= uint64(len(nameAlphabet))
	}
	return base + string(suffix)
}

// nameRole is what generated names are counted by.
func nameRole(k *Kind, obj Object) string {
	owner := ""
	if ref := metav1.GetControllerOf(obj); ref != nil {
		owner = string(ref.UID)
	}
	return k.Group + "/" + k.Kind + "/" + obj.GetNamespace() + "/" + obj.GetGenerateName() + "/" + owner
}
