// Package canon compares and hashes Kubernetes objects by what they mean rather than by how they lie in memory.
//
// [Equal] says whether two values are the same on the wire: a nil and an empty list are equal where `omitempty` drops
// both, two times are equal if they print alike, two quantities if they are the same amount. [Hash] reduces an object to
// what a comparison of two runs may see: resourceVersions, managedFields and times differ between orders that mean the
// same, and are left out (of a time it keeps whether it is set). [Hasher] builds a running hash out of such parts.
//
// Both run over built-in API structs and over unstructured trees. For a struct the work to be done is worked out once per
// Go type, as a flat list of instructions over field offsets, so that neither uses reflection per field afterwards; this
// is why the package reads memory through unsafe pointers. Values are only ever read. All functions may be used from
// several goroutines at once.
//
// What the package does not do: compare a typed object with an unstructured one (never equal), notice that two
// quantities of one amount are written in different units (a real server stores "1Gi" and "1073741824" as different
// bytes, though it calls them equal when it compares specs), or look below a type's own MarshalJSON.
package canon
