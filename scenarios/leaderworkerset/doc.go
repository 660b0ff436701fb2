// Package leaderworkerset holds reference reconcilers of the LeaderWorkerSet controller (kubernetes-sigs/lws, release 0.8): as
// it was before its pull request 733 ("leaderworkerset/buggy"), as that request left it ("leaderworkerset/fixed"), and one of
// our own that also looks at whose StatefulSet it has found, and makes no revision twice ("leaderworkerset/hardened").
//
// They make the API calls of the original one by one, in its order and with its handling of every error: reads from the
// manager's cache, writes to the server. One pass over a LeaderWorkerSet (LWS) is:
//
//	1  Get lws                        gone, or being deleted: done
//	2  Get sts                        the leaders' StatefulSet, by the name of the LWS; it may be absent
//	   fixed: if that is being deleted, come back in 5 s
//	3  List revisions                 those with the key that the set has in its label, of this LWS or of nobody
//	   List revisions, POST revision  if there is none: the LWS as it is, under the key of the set, or of its own if there is no set
//	4  List revisions, POST revision  if there is a set, and the LWS is another than that revision: an update begins
//	5  List pods, List sts            while an update is under way: how far it may go
//	6  PATCH sts                      server-side apply, forced, with the key of the revision
//	7  Get svc, POST svc              if it is absent
//	8  Get sts, List pods             what became of it
//	   PUT lws/status                 if it changed; a conflict means once more
//	9  List revisions, DELETE         those with other keys, once everything is updated and ready
//
// Any other error ends the pass, which is retried with a back-off. The reconciler is woken by events of the LWS, of sets and
// Services that an LWS of its name controls, and of sets with its label.
//
// The bug (issue 732) is in step 2: the set found by name may be that of an LWS of the same name that was deleted a moment ago.
// Its key is then put on a revision that holds the new LWS, and on the set and its pods: from there on the key stands for two
// templates, and old pods count as updated. The fix sees a set that is being deleted. It does not see one that the garbage
// collector has not come to yet, nor one that a cache shows as it was before.
//
// The operator's process also answers its webhooks, with the defaults of an LWS and the group index of a leader pod.
//
// Left out are worker StatefulSets and with them the pod controller, for which groups must have a size of 1; subgroups,
// exclusive placement, volume claims, network names other than the shared one, and gang scheduling.
package leaderworkerset
