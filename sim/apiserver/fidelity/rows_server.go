package fidelity

import "slices"

// server returns tests of the API server by their names.
func server(names ...string) []Case { return tests("sim/apiserver", names...) }

// tests returns tests of a folder by their names.
func tests(folder string, names ...string) []Case {
	cases := make([]Case, len(names))
	for i, name := range names {
		cases[i] = Case(folder + "." + name)
	}
	return cases
}

var beliefs = []Row{
	{
		ID: "N1", Status: Modelled,
		Behaviour: "A patch without a resourceVersion never ends in a conflict: the server applies it anew to whatever is there.",
		Cases:     server("TestPatchesNeverConflict", "TestLostUpdate"),
	},
	{
		ID: "N2", Status: Partly,
		Behaviour: "An update runs against an object of the server's own cache first, and anew if that is out of date or somebody " +
			"else writes meanwhile, so that admission may run more than once for one request.",
		Missing: "it begins with what is stored, and starts over only where a webhook itself writes to the object; what is committed " +
			"is the same",
		Cases: server("TestWebhookOvertakes"),
	},
	{
		ID: "N3", Status: Modelled,
		Behaviour: "Informers take their first list as a watch that begins with what exists, and hand out every " +
			"event, in order: nothing is " +
			"merged but by a new list.",
		Cases: slices.Concat(tests("sim/apiserver/handler", "TestInformers"), tests("sim/cache", "TestClientGo")),
	},
	{
		ID: "N4", Status: Modelled,
		Behaviour: "The StatefulSet controller does not act on caches that are older than its own last writes.",
		Cases:     tests("racer", "TestEnsureReady", "TestDeletesAreNotTracked"),
	},
	{
		ID: "N5", Status: Modelled,
		Behaviour: "controller-runtime v0.25 can be told to have cached reads wait for the client's own writes, within limits. Off by " +
			"default; client.ReadYourWrites turns it on here, for older versions, too.",
		Cases: tests("sim/client", "TestReadYourWrites/consistent", "TestFrozenCache", "TestConsistencyLimits"),
	},
	{
		ID: "N6", Status: Partly,
		Behaviour: "What a StatefulSet's update comes to depends on the version: OnDelete converges, maxUnavailable counts, from 1.37 on.",
		Missing:   "the strategy Recreate, behind a gate that is off",
		Differs:   "both rules are those of the version that is asked for",
		Cases:     tests("racer", "TestCompleteUpdate", "TestMaxUnavailable", "TestTrace"),
	},
	{
		ID: "N7", Status: Modelled,
		Behaviour: "A write to the status of most built-ins stores labels, annotations and finalizers, too; that of " +
			"a custom resource stores " +
			"the status only.",
		Cases: slices.Concat(recordings("status-update-cr-ignores-spec-and-metadata"), server("TestStatusKeepsMetadata")),
	},
	{
		ID: "N8", Status: Modelled,
		Behaviour: "The write that takes the last finalizer of a deleted object is never stored: there is one event, " +
			"DELETED, with what was " +
			"stored before.",
		Cases: slices.Concat(recordings("remove-finalizer-json-patch-completes"), server("TestLastFinalizer")),
	},
}

var writes = []Row{
	{
		ID: "S1", Status: Modelled,
		Behaviour: "There is one counter of revisions over all kinds; every commit moves it on by one, and is the " +
			"object's resourceVersion.",
		Cases: server("TestOneRevision"),
	},
	{
		ID: "S2", Status: Modelled,
		Behaviour: "A delete has a revision of its own, which the object of its event carries.",
		Cases:     slices.Concat(recordings("watch-delete-event-rv"), server("TestOneRevision")),
	},
	{
		ID: "S3", Status: Modelled,
		Behaviour: "A PUT with another resourceVersion than the stored one is refused with 409 Conflict, also if it would change nothing.",
		Cases: recordings("update-after-status-write-conflicts", "update-no-op-stale-rv", "update-rv-from-the-future",
			"update-rv-not-a-number", "update-cr-stale-rv", "lease-update-stale-rv"),
	},
	{
		ID: "S4", Status: Modelled,
		Behaviour: "A PUT without a resourceVersion overwrites what is there; custom resources, Leases, PodDisruptionBudgets, webhook " +
			"configurations and some more refuse it with 422.",
		Cases: slices.Concat(recordings("update-empty-rv-configmaps", "update-empty-rv-pods", "update-empty-rv-leases"),
			server("TestKindRows")),
	},
	{
		ID: "S5", Status: Modelled,
		Behaviour: "A PUT with the UID of another object, as of one that was deleted and created again, is refused with 409.",
		Cases:     slices.Concat(recordings("update-uid-and-rv-of-deleted-predecessor"), server("TestRecreated")),
	},
	{
		ID: "S6", Status: Modelled,
		Behaviour: "A PUT of an object that is missing is 404; Services, Leases, Events, roles and some more are " +
			"created by it, unless it " +
			"carries a UID: then it is 409.",
		Cases: slices.Concat(recordings("update-not-found-with-uid", "update-not-found-uid-no-rv", "update-not-found-no-uid",
			"update-not-found-cr-with-uid"), server("TestKindRows", "TestCreateOnUpdate")),
	},
	{
		ID: "S7", Status: Modelled,
		Behaviour: "A patch with another UID is 422, an apply with a UID to an object that is missing 409.",
		Cases:     slices.Concat(recordings("apply-create-with-uid"), server("TestRecreated")),
	},
	{
		ID: "S8", Status: Modelled,
		Behaviour: "A delete can name the UID and the resourceVersion that it means; anything else is 409.",
		Cases: slices.Concat(recordings("delete-precondition-uid", "delete-precondition-uid-finalizer"),
			server("TestRefused", "TestRecreated")),
	},
	{
		ID: "S9", Status: Modelled,
		Behaviour: "A delete of a missing object is 404. Deleting a collection deletes one object after another.",
		Cases:     recordings("delete-not-found", "delete-collection"),
	},
	{
		ID: "S10", Status: Modelled,
		Behaviour: "The server gives every new object a UID; it never changes, and one that is created again has another.",
		Cases:     slices.Concat(recordings("create-ok", "create-with-uid-and-system-fields"), server("TestUIDs")),
	},
	{
		ID: "S11", Status: Modelled,
		Behaviour: "Times are the server's, in whole seconds; updates do not change creationTimestamp.",
		Cases:     slices.Concat(recordings("create-with-uid-and-system-fields"), server("TestWire", "TestNoChange")),
	},
	{
		ID: "S12", Status: Modelled,
		Behaviour: "generateName is cut to 58 characters and gets five more; after eight names that are taken the " +
			"server gives up with 409.",
		Cases: server("TestGenerateName", "TestGenerateNameTaken"),
	},
	{
		ID: "S13", Status: Modelled,
		Behaviour: "Creating what exists is 409 AlreadyExists; if that is being deleted, the message says so.",
		Cases:     recordings("create-already-exists", "create-already-exists-terminating", "create-already-exists-terminating-pod"),
	},
	{
		ID: "S14", Status: Modelled,
		Behaviour: "Creating with a resourceVersion is 500, without a reason.",
		Cases:     slices.Concat(recordings("create-with-resource-version"), server("TestResourceVersionOfNewObject")),
	},
	{
		ID: "S71", Status: Modelled,
		Behaviour: "Names, labels, annotations and namespaces are checked; a dry run answers and stores nothing; a body over 3 MiB is 413.",
		Cases: slices.Concat(
			recordings("create-namespace-mismatch", "update-name-mismatch", "create-dry-run", "update-dry-run", "delete-dry-run",
				"delete-dry-run-finalizer", "request-too-large"),
			tests("sim/apiserver/builtin", "TestValidateMetadata"), server("TestRefused"),
		),
	},
	{
		ID: "S73", Status: Modelled,
		Behaviour: "Whatever several clients do at once, each object behaves as if they had done it one after another.",
		Cases: slices.Concat(tests("sim/apiserver/handler", "TestLinearizable", "TestLinearizableCanaries"),
			tests("sim/apiserver/modeltest", "TestModel", "TestCanaries")),
	},
}

var generations = []Row{
	{
		ID: "S15", Status: Modelled,
		Behaviour: "Workloads, Jobs, budgets, Ingresses and NetworkPolicies begin at generation 1; each change of " +
			"the spec adds one, after " +
			"defaulting. What the client says is ignored.",
		Cases: slices.Concat(recordings("generation-spec-change", "generation-client-value-ignored"),
			server("TestKindRows", "TestGeneration")),
	},
	{
		ID: "S16", Status: Modelled,
		Behaviour: "A Deployment's generation counts annotations, too, and an EndpointSlice's labels.",
		Cases:     server("TestKindRows/Deployment", "TestKindRows/EndpointSlice"),
	},
	{
		ID: "S17", Status: Modelled,
		Behaviour: "A Pod's generation counts its spec, but binding it to a node does not count.",
		Cases:     server("TestKindRows/Pod", "TestBindingKeepsGeneration"),
	},
	{
		ID: "S18", Status: Modelled,
		Behaviour: "ConfigMaps, Secrets, Services, claims, Nodes, Namespaces, Leases, roles, Events and some more " +
			"stay at generation 0, so that " +
			"GenerationChangedPredicate drops all their updates.",
		Differs: "HorizontalPodAutoscalers count from 1.37 on",
		Cases:   server("TestKindRows/ConfigMap", "TestKindRows/Service", "TestKindRows/Lease", "TestKindRows/Node"),
	},
	{
		ID: "S19", Status: Modelled,
		Behaviour: "A custom resource's generation counts all but metadata, and but status where that is a subresource.",
		Cases: slices.Concat(recordings("generation-cr"), server("TestKindRows/Widget", "TestCustomWithoutStatus",
			"TestStatusRequiresSubresource", "TestUnknownKindRules")),
	},
	{
		ID: "S20", Status: Modelled,
		Behaviour: "The first delete of an object that stays adds one to its generation.",
		Cases:     slices.Concat(recordings("delete-with-finalizer"), server("TestPodGrace", "TestPodGraceEdges")),
	},
	{
		ID: "S21", Status: Modelled,
		Behaviour: "Writes to an object do not change its status, and those to its status do not change the spec; new objects have none. " +
			"Without the subresource /status is 404, and status a field like others.",
		Cases: slices.Concat(
			recordings("create-ok", "spec-update-ignores-status", "spec-update-cr-ignores-status",
				"status-update-cr-ignores-spec-and-metadata", "status-update-not-found", "status-update-invalid"),
			server("TestStatusResets", "TestCustomWithoutStatus"),
		),
	},
	{
		ID: "S22", Status: Modelled,
		Behaviour: "A write that changes nothing is 200, without a new revision and without an event. Only an apply " +
			"by a new manager does write.",
		Cases: slices.Concat(recordings("patch-no-op", "apply-no-op"), server("TestNoChange", "TestAppliedAgain")),
	},
}

var deletions = []Row{
	{
		ID: "S23", Status: Modelled,
		Behaviour: "Clients do not decide over deletionTimestamp: clearing it is ignored, setting it on an update is " +
			"422, on a create ignored.",
		Cases: recordings("update-clears-deletion-timestamp", "update-set-deletion-timestamp",
			"create-with-uid-and-system-fields"),
	},
	{
		ID: "S24", Status: Modelled,
		Behaviour: "An object that is being deleted gets no new finalizers: 422.",
		Cases:     recordings("add-finalizer-terminating", "add-finalizer-terminating-cr"),
	},
	{
		ID: "S25", Status: Modelled,
		Behaviour: "What nothing holds is gone with one event.",
		Cases:     recordings("delete-propagation-background", "delete-pod-unscheduled"),
	},
	{
		ID: "S26", Status: Modelled,
		Behaviour: "What a finalizer holds is marked: deletionTimestamp, grace period 0. Its spec can still be " +
			"written, and a second delete " +
			"changes nothing.",
		Cases: recordings("delete-with-finalizer", "delete-twice-terminating"),
	},
	{
		ID: "S27", Status: Modelled,
		Behaviour: "It goes with its last finalizer, unless its grace period still runs.",
		Cases: slices.Concat(recordings("remove-finalizer-json-patch-completes", "delete-pod-scheduled-finalizer"),
			server("TestLastFinalizer", "TestPodGraceKeepsFinalizers")),
	},
	{
		ID: "S28", Status: Modelled,
		Behaviour: "A Pod on a node stays for its grace period, 30 s if nothing says otherwise; one without a node, " +
			"or that has ended, goes at " +
			"once. A second delete can only shorten the time.",
		Cases: slices.Concat(recordings("delete-pod-unscheduled", "delete-pod-scheduled-finalizer"),
			server("TestPodGrace", "TestPodGraceEdges"), tests("racer", "TestKubelet")),
	},
	{
		ID: "S29", Status: Modelled,
		Behaviour: "A delete that says nothing is by the kind's default: Background, but Orphan for Jobs and ReplicationControllers.",
		Cases:     server("TestKindRows/Job", "TestKindRows/ReplicationController", "TestPropagation"),
	},
	{
		ID: "S30", Status: Modelled,
		Behaviour: "Foreground and Orphan are finalizers, which a later delete with another policy replaces, but not " +
			"on a Pod in its grace period.",
		Cases: slices.Concat(recordings("delete-propagation-foreground", "delete-finalizer-then-propagation-change",
			"delete-propagation-bogus"), server("TestPropagation", "TestPodGraceEdges")),
	},
}

var collection = []Row{
	{
		ID: "S31", Status: Modelled,
		Behaviour: "The garbage collector deletes what has only owners that are gone, by name and UID; of one that " +
			"still has an owner it takes " +
			"the others away.",
		Cases: tests("racer", "TestAbsentOwner", "TestBackground", "TestRecreatedOwner", "TestOrphan"),
	},
	{
		ID: "S32", Status: Partly,
		Behaviour: "An owner in another namespace counts as gone; a cluster-scoped object with a namespaced owner is never collected.",
		Missing:   "the Event OwnerRefInvalidNamespace",
		Cases: tests("racer", "TestOwnerInAnotherNamespace", "TestClusterScopedDependent", "TestClusterScopedAndNamespaced",
			"TestAlternatives"),
	},
	{
		ID: "S33", Status: Modelled,
		Behaviour: "It deletes with UID and resourceVersion, so that somebody who writes in between saves the object " +
			"or has it looked at again.",
		Cases: tests("racer", "TestPreconditions", "TestConflictWithoutChange"),
	},
	{
		ID: "S34", Status: Modelled,
		Behaviour: "In the foreground an owner waits for the dependents that block it.",
		Cases: tests("racer", "TestForeground", "TestForegroundBlocked", "TestForegroundUnblocked",
			"TestForegroundCycle", "TestFinalizerRemovalConflict", "TestUnblockedOwner"),
	},
	{
		ID: "S35", Status: Modelled,
		Behaviour: "It works by caches that lag, in any order, and knows owners that it has not seen yet; the owners of a custom resource " +
			"it patches as its cache shows them, which may be a conflict.",
		Cases: tests("racer", "TestAnyOrder", "TestOwnerUnderSeveralNames", "TestOwnerRecreatedInAGap", "TestDelay",
			"TestMergePatchOfStaleCache", "TestMergePatchUncached", "TestOrphanedByForce"),
	},
	{
		ID: "S36", Status: Partly,
		Behaviour: "At most one owner is the controller: 422. A reference that is there twice is stored once, with a " +
			"warning; one without a UID " +
			"is 422.",
		Missing: "the admission plugin OwnerReferencesPermissionEnforcement, which few clusters turn on",
		Cases: slices.Concat(recordings("create-owner-without-uid"), server("TestOneController", "TestRepeatedOwners",
			"TestApplyOwners")),
	},
}

var fixed = []Row{
	{
		ID: "S37", Status: Modelled,
		Behaviour: "Of a StatefulSet's spec only replicas, ordinals, template, strategy, history limit, claim " +
			"retention and minReadySeconds change.",
		Differs: "1.36 refuses with one text for the spec, 1.37 with one for each field",
		Cases: recordings("update-immutable-selector", "update-immutable-servicename", "update-immutable-volume-claim-templates",
			"update-mutable-fields"),
	},
	{
		ID: "S38", Status: Modelled,
		Behaviour: "So do other kinds keep fields: selectors of workloads, templates of Jobs, specs of Pods and " +
			"claims, cluster IPs, immutable " +
			"ConfigMaps and Secrets, roleRef, the parameters of StorageClasses.",
		Cases: slices.Concat(recordings("update-pod-immutable", "update-configmap-immutable"), server("TestImmutableFields"),
			tests("sim/apiserver/builtin", "TestValidatePodUpdate", "TestValidateService", "TestValidateConfig")),
	},
	{
		ID: "S39", Status: Modelled,
		Behaviour: "A pod template is defaulted wherever it is, as a Pod is.",
		Cases:     tests("sim/apiserver/builtin", "TestDefaultPod", "TestRecorded"),
	},
	{
		ID: "S40", Status: Modelled,
		Behaviour: "A StatefulSet is defaulted; a rollingUpdate only where the strategy says no type.",
		Differs:   "1.37 fills in maxUnavailable",
		Cases:     slices.Concat(recordings("create-ok"), tests("sim/apiserver/builtin", "TestDefaultStatefulSet", "TestRecorded")),
	},
	{
		ID: "S41", Status: Modelled,
		Behaviour: "Services, Deployments, Jobs and others are defaulted; Services get addresses and node ports.",
		Cases:     tests("sim/apiserver/builtin", "TestDefaultOthers", "TestPrepareService"),
	},
	{
		ID: "S42", Status: Partly,
		Behaviour: "The default admission plugins change and refuse Pods and claims: tolerations, limit ranges, priority and runtime " +
			"classes, labels of the node's place, claims that may not grow, the finalizer of claims.",
		Missing: "service accounts and their tokens, Pod security, quotas; new claims have the finalizer only where a VolumeBinder " +
			"takes it away",
		Cases: slices.Concat(server("TestAdmission", "TestAdmissionOfUpdates"), tests("sim/apiserver/builtin", "TestPreparePod")),
	},
}

var patches = []Row{
	{
		ID: "S43", Status: Modelled,
		Behaviour: "Apply merges field by field: conflicts with other managers are 409 and name them, force takes " +
			"fields over, what only its " +
			"manager owned and leaves out goes; it creates what is missing.",
		Cases: slices.Concat(
			recordings("apply-create", "apply-conflict-sts-two-managers", "apply-conflict-with-updater", "apply-force", "apply-drops-field",
				"apply-managed-fields-set", "apply-no-field-manager", "apply-stale-rv"),
			server("TestApplyConfigMap", "TestApplyStatefulSet", "TestApplyLists", "TestApplyCustomLists", "TestManagedFieldsLater"),
		),
	},
	{
		ID: "S44", Status: Modelled,
		Behaviour: "Managers that apply and those that update are kept apart, ten of the latter at most; " +
			"before-first-apply owns what was there.",
		Cases: server("TestOldManagers", "TestApplyLoaded", "TestKubectlApply"),
	},
	{
		ID: "S45", Status: Modelled,
		Behaviour: "Who applies the spec cannot own the status, and the other way round.",
		Cases:     slices.Concat(server("TestApplyStatefulSet", "TestApplyWidget"), tests("sim/client", "TestApplyStatus")),
	},
	{
		ID: "S46", Status: Modelled,
		Behaviour: "There are JSON, merge, strategic and apply patches. A test that fails is 422, what cannot be " +
			"read 400, a strategic patch of a " +
			"custom resource 415, 10 000 operations the most.",
		Cases: slices.Concat(
			recordings("json-patch-test-fails", "strategic-patch-cr", "strategic-patch-remove-annotation", "patch-not-found",
				"unsupported-media-type", "create-bad-json"),
			server("TestRefusedPatches", "FuzzPatch"), tests("sim/apiserver/handler", "TestRules"),
		),
	},
	{
		ID: "S47", Status: Modelled,
		Behaviour: "A patch with a resourceVersion is an optimistic lock: 409 at once. null is no lock.",
		Cases:     slices.Concat(recordings("merge-patch-stale-rv", "apply-stale-rv"), server("TestPatchesNeverConflict", "TestNoChange")),
	},
	{
		ID: "S48", Status: Modelled,
		Behaviour: "A merge patch replaces lists: of two writers from one state the first loses, and nobody is told.",
		Cases:     server("TestLostUpdate"),
	},
}

var reads = []Row{
	{
		ID: "S49", Status: Partly,
		Behaviour: "A read at no revision sees the present, at 0 any that is cached, at N one not older, or with " +
			"Exact just that; one of the " +
			"future waits 3 s and is 504.",
		Missing: "there is one API server, whose cache is never behind: a read at 0 sees the present",
		Cases: slices.Concat(recordings("list-exact-compacted", "list-empty", "get-not-found"), server("TestListRevisions"),
			tests("sim/apiserver/handler", "TestRules/revision to come")),
	},
	{
		ID: "S50", Status: Modelled,
		Behaviour: "A list comes in pages of one revision; a token that is too old is 410, with another to go on " +
			"inconsistently. A read at 0 " +
			"ignores the limit.",
		Cases: slices.Concat(recordings("list-continue-expired"), server("TestPagingShowsOneRevision", "TestListRevisions")),
	},
	{
		ID: "S51", Status: Modelled,
		Behaviour: "The server lists by namespace and name, a cache in any order, which the exploration chooses.",
		Cases: slices.Concat(server("TestListOrder"), tests("sim", "TestRelistOrder"),
			tests("sim/client", "TestListOrder", "TestRandomOrders")),
	},
	{
		ID: "S52", Status: Modelled,
		Behaviour: "A watch begins with what exists (no revision, or 0) or after a revision; where that is too old, " +
			"its one event is the ERROR 410.",
		Cases: recordings("watch-rv-zero", "watch-from-rv-1-in-cache-window", "watch-future-rv", "watch-bad-rv", "watch-too-old",
			"watch-too-old-etcd"),
	},
	{
		ID: "S53", Status: Modelled,
		Behaviour: "The events of a kind come in order, every one; those of different kinds in none.",
		Cases:     slices.Concat(tests("sim/apiserver/handler", "TestWatch", "TestInformers"), tests("sim/cache", "TestViewModel")),
	},
	{
		ID: "S54", Status: Modelled,
		Behaviour: "An object that comes to match a selector is ADDED, one that ceases to is DELETED, as it last " +
			"matched and at the new revision.",
		Cases: slices.Concat(recordings("watch-label-selector-transitions"), server("TestTransition", "TestFieldTransition")),
	},
	{
		ID: "S55", Status: Modelled,
		Behaviour: "Bookmarks come once a minute and before the end, to who asked for them.",
		Cases:     tests("sim/apiserver/handler", "TestBookmarks"),
	},
	{
		ID: "S56", Status: Modelled,
		Behaviour: "A watch can begin with the events of what exists, which a bookmark ends.",
		Cases:     slices.Concat(recordings("watch-list-stream"), tests("sim/apiserver/handler", "TestInformers")),
	},
	{
		ID: "S57", Status: Partly,
		Behaviour: "Watches end after a time; who begins anew from the last revision loses nothing.",
		Missing:   "the server never closes the watch of a slow reader, and its own time is fixed, 45 minutes",
		Cases:     slices.Concat(tests("sim/apiserver/handler", "TestWatchEnds", "TestInformers"), tests("sim", "TestWatchFaults")),
	},
	{
		ID: "S58", Status: Modelled,
		Behaviour: "Field selectors are those of the kind, or the selectable fields of a definition; others are 400.",
		Cases: slices.Concat(recordings("list-unsupported-field-selector"), server("TestFieldTransition"),
			tests("sim/apiserver/handler", "TestRules/watch by an unknown field"), tests("sim/client", "TestCachedList")),
	},
}
