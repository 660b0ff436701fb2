// Package ondelete holds reference reconcilers around a StatefulSet whose update strategy is OnDelete, where pods are replaced by
// somebody other than kube-controller-manager; and what becomes of the set's status.
//
// Up to Kubernetes 1.36 kube-controller-manager never makes the update revision of such a set the current one: completeRollingUpdate
// asks for the strategy RollingUpdate (kubernetes #73492, #106055; 1.37 does not ask any more, #136833). A finished rollout leaves
// status.currentRevision, and with it currentReplicas, at the first revision there ever was; and a template that goes back to that
// revision looks rolled out before any pod was replaced.
//
// "ondelete/replacer" only replaces pods, one at a time, and shows what that comes to. The others play sei-k8s-controller, which
// rolls out the image of a SeiNode by a plan of tasks that it keeps in the status. One pass over a SeiNode is:
//
//	1  GET node                       from the cache
//	2  APPLY sts                      with the image of the spec, in every pass
//	3                                 a plan that is over is dropped; if spec.image is not status.currentImage, a new one is
//	                                  made, stored (7), and begun with the next pass; an active one goes on as it is
//	4  apply-statefulset: APPLY sts   once more
//	5  replace-pod: GET sts           live; waits until it is observed; if currentRevision is updateRevision, nothing is to be done
//	   LIST pods                      from the cache
//	   DELETE pod                     each that is not at updateRevision; the task is over, whatever becomes of them
//	6  observe-image: GET sts         live; waits until it is observed, and updatedReplicas are all replicas
//	   PATCH sts/status               "ondelete/sei-379" only: currentRevision and currentReplicas, without a lock
//	7  PATCH node/status              if it changed, with the revision of 1; on a conflict all that the pass knew is lost
//
// Tasks that are done follow each other in one pass. One that is not, or fails, is tried again after 10 s, or when the set changes.
//
// "ondelete/sei" trusts currentRevision in step 5, which up to 1.36 is no answer: rolled back to the first image, its plan takes the
// pods for replaced and waits for ever for updatedReplicas. A change of the image after step 5 has the same end, as the plan does
// not look back. "ondelete/sei-379" is what pull request 379 proposed: it repairs currentRevision. But
// kube-controller-manager puts the whole status that it computed from its cache, and after a conflict the same status once more:
// what was patched in between is lost, and the task that would patch it again is over. "ondelete/pods" asks the pods themselves,
// live, by their label controller-revision-hash, leaves the set's status to its owner, and plans anew when the image changes.
//
// Left out are the tasks for services, configuration and sidecars, failed plans (nothing here fails for good), and phases. A SeiNode
// has one pod; the original refuses more.
package ondelete
