// Package seinode holds reference reconcilers of sei-k8s-controller's SeiNode: how it keeps the StatefulSet of a node, which it
// tracks by its UID in the node's status. "seinode/v345-first" is the first commit of its pull request 345 (fecd6bd),
// "seinode/v345" what was merged, and "seinode/v348" the fix of 348.
//
// They make the API calls of the original one by one, in its order and with its handling of every error. Reads come from
// informers' caches, unless it says live. One pass over a SeiNode is:
//
//	1  GET node                      gone: done; deleted: PATCH its status, PUT it without the finalizer
//	   PUT node                      the finalizer, if it lacks it
//	2  sync                          status.statefulSet is the set that it returned, if it did; in memory
//	3  paused: on to 5
//	4  no plan, or one that is done  make one if the image is another; it begins with the next pass, at once
//	   a plan                        its tasks in their order, until one is not done; in memory:
//	     apply-statefulset           sync again; done if it returned a set
//	     apply-service               PATCH svc, an apply
//	     observe-image               GET sts, live: done if it is rolled out; status.currentImage
//	5  PATCH node/status             with the node's resourceVersion, if anything has changed; an error ends the pass
//
// where sync, which brings the set up to date, is in v345 and v348
//
//	GET sts                          only if the status names one; another UID is an impostor:
//	DELETE sts                       by its name; v348 forgets the UID, in memory; no set is returned
//	PATCH sts                        otherwise: an apply by force, with replicas 0 if the node is paused
//
// and in v345-first
//
//	GET sts                          absent: POST sts; an impostor: DELETE sts, POST sts
//	PUT sts                          if anything is not as rendered
//
// An error of sync in step 2 ends the pass, and in a task has it tried again after 10 s. Anything that happens to the set or the
// service wakes the operator, and changes of the node's spec do; those of its status do not.
//
// The bugs have one root: which set is the operator's own is known from the status alone, and that is written by one path, late,
// and perhaps in vain, while two paths create sets.
//
//   - v345: sync deletes an impostor in step 2 and creates a set in step 4, which the status does not learn of. The next pass
//     takes that for an impostor. It takes a fast cache: if the task still sees the impostor, it does nothing.
//   - v345-first: sync deletes and creates at once. It takes a slow cache: if the task still sees the impostor, it deletes by name
//     what was just created. And the PUT comes with every pass: what the API server has filled in is not as rendered. It changes
//     nothing there, as the same is filled in again.
//   - v348 forgets the UID together with the impostor, which mends the first, but not: a set that somebody deletes between steps 2
//     and 4; a write of the status that fails, or that the cache does not show yet, after a set was created; a cached set
//     that is gone, in whose stead its namesake is deleted.
//
// Left out are peers, bootstrap and sidecar tasks, conditions, events and metrics; the data volume; and the task that
// replaces a pod: sets have the update strategy OnDelete in the original, and here roll by themselves.
package seinode
