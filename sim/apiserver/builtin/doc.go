// Package builtin knows what a real API server does with the content of built-in kinds: the defaults it fills in, what it
// sets itself when an object is created, and what it refuses, in its own words.
//
// All functions are plain functions on typed objects; the request pipeline decides when to call which. For a kind X:
//
//   - DefaultX fills in defaults, in place, as decoding does: for creates, updates and patches alike;
//   - PrepareX sets, in place, what the server and its default admission plugins decide about a new object;
//   - ValidateX checks a new object (old is nil) or an update of the main resource, after defaulting. It leaves out the
//     metadata, which [ValidateMetadata] checks for every kind;
//   - ValidateXStatus checks a write to the status subresource.
//
// What was stored is valid, so updates are checked only as far as they change something; an update that leaves the spec as
// it was costs one comparison.
//
// The version is "1.36" or "1.37": most behaviour is the same, some defaults and many error texts are not. The rules are
// those of pkg/apis in k8s.io/kubernetes, written anew; the file is named at each function.
//
// Not modelled, and accepted as sent: rules about volumes of particular storage systems, pod-level resources, dynamic resource
// claims, AppArmor, Windows, and features behind gates that are off by default. An error that prints an empty list or map prints null,
// as a real server does for a client that sends protobuf.
package builtin
