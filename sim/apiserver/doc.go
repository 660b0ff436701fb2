// Package apiserver is the simulated Kubernetes API server: a multi-version store and the request pipeline in front of it.
//
// A [Server] answers one [Request] at a time with [Server.Do], exactly as a kube-apiserver of the modelled minor version
// would: with the same codes, reasons, messages and details, and the same commits in the same order. Truth is a real
// control plane; the recordings in testdata were made with one, and a test plays them all but a list it explains.
//
//	server := apiserver.NewServer(apiserver.NewKinds(apiserver.V136), clock)
//	answer := server.Do(&apiserver.Request{Verb: schedule.Create, Kind: kind, Namespace: "default", Object: set})
//
// # Store
//
// There is one revision for all kinds, as in etcd: each commit takes the next one, deletes too. Stored objects are
// immutable and shared between the store, its event logs, its readers and its snapshots; a write makes a new object that
// shares every part it did not change. Each kind has an append-only event log ([Server.Log]); a reader keeps an index into
// it as its cursor. A [Snapshot] is the state at a moment, from which any number of servers can start.
//
// # Pipeline
//
// A request goes through these steps; those in brackets are for who uses them, and cost nobody else anything:
//
//	Do       [may they? access.go]  [another version or group of the kind: alias.go]  [again, if webhooks changed the object]
//	route    the resource, or a subresource: status, scale, binding, eviction, finalize
//	verb     update.go, create.go, patch.go, apply.go, delete.go, list.go: decode, default, (patch | merge), UID and revision rules
//	settle   [mutating webhooks]  [may they grant it?]  metadata and status resets, validation, default admission plugins,
//	         [validating webhooks]  no-op check
//	commit   store.go: the next revision, the object in the store, an event in the log, which watches follow: watch.go
//
// A new object goes through createNamed instead of settle, a deleted one through deleteStored. What differs between kinds is data
// in the kinds table ([Kinds]), not code. A custom resource is stored as *unstructured.Unstructured, a built-in as its Go type, in
// the form in which a client would decode it: times in whole seconds, empty lists and maps nil where their JSON form drops them.
//
// # Custom resources
//
// [Kinds.AddCRD] adds a kind with its definition, in every version that is served; the definition is also an object of each
// server, established. Requests for a version are pruned, defaulted and validated by its schema and answered in it, and objects
// are stored in one version, as with the conversion strategy None. A kind of which there is no definition can be added by what is
// known of it ([Kinds.AddType], [Kinds.AddUnknown], [Kinds.WithTypes]): it follows the same rules without a schema, and using it
// is a gap.
//
// # Admission
//
// The default admission plugins that matter to operators are part of the pipeline. Webhooks are those of the configurations in
// the store, called through [Server.SetWebhookClient], and those given in Go, see [Server.AddHooks]. A [Request] with an Access is
// one of somebody who may not do everything: package rbac makes it of roles.
//
// # Names
//
// UIDs and the suffixes of generated names are derived from what the object is rather than drawn at random, see names.go:
// two runs that create the same objects in a different order still give them the same UIDs.
//
// # Ownership
//
// Server-side apply is that of the upstream library, k8s.io/apimachinery/pkg/util/managedfields, and so is what managedFields
// say. They are worked out late: a write costs nothing for them until somebody applies to the kind. Then an object's ownership
// follows from its own history, as exactly as if it had been kept all along, and is kept from there on. Until then readers see
// no managedFields; [Server.TrackManagedFields] and [Server.WithManagedFields] are for those who need them. Objects that were
// loaded have the managedFields they were written with, and without any are what a real server calls before-first-apply.
//
// # Limitations
//
// What a request touches that is not modelled is remembered and told by [Server.Gaps]. Not modelled are: the admission plugins
// ServiceAccount, PodSecurity and ResourceQuota, and admission policies; match conditions of webhooks; conversion of custom
// resources by webhooks; validation rules in CEL unless the package crd/cel is imported; definitions that are made in the course of
// a run; the subresources that a kubelet answers, ephemeralcontainers and resize; and expiry of Events. The finalizer that protects
// claims is set only after [Server.ProtectClaims]. Fields of a built-in that this version of k8s.io/api does not know are
// dropped. Reads are linearizable: there is one server, and no watch cache. docs/fidelity.md has the whole list.
//
// A Server is used by one goroutine at a time. It has no locks, starts no goroutine, and knows no time but its clock's.
package apiserver
