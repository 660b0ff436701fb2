package fidelity

import "slices"

var extensions = []Row{
	{
		ID: "S59", Status: Modelled,
		Behaviour: "The scale of a workload, or of a custom resource whose definition says where, is read and written by itself, with " +
			"its revision as a lock; an apply to it owns the replicas.",
		Cases: slices.Concat(recordings("scale-update", "scale-update-stale-rv"), server("TestScalePatch", "TestApplyScale",
			"TestCustomScale", "TestCustomScaleRefused", "TestCustomScaleOwned"), tests("sim/client", "TestCustomScale")),
	},
	{
		ID: "S60", Status: Modelled,
		Behaviour: "An eviction asks the disruption budget of a Pod: 429 where it allows none or its status is older than its spec, 500 " +
			"where there are two budgets. What it lets go it counts in the budget's status.",
		Cases: slices.Concat(server("TestEviction", "TestEvictionCommits", "TestEvictionHeld", "TestEvictionVerbs"),
			tests("sim/apiserver/handler", "TestEviction", "TestEvictionAnswers"), tests("sim/client", "TestEviction"),
			tests("racer", "TestEvictionsInTurn")),
	},
	{
		ID: "S61", Status: Partly,
		Behaviour: "Admission webhooks change and check what is written: by configuration and name, with rules and selectors, " +
			"reinvocation, time limits, failure and side-effect policies, and the texts of their refusals and failures.",
		Missing: "match conditions are taken to hold, and the verdict says so; a mutating webhook sees a Pod before the default plugins " +
			"have changed it; nobody else takes a step while a webhook is asked; of several refusals the first by name is told, not the fastest",
		Cases: slices.Concat(
			server("TestWebhookOrder", "TestWebhookReinvocation", "TestWebhookMatching", "TestWebhookPatch", "TestWebhookDenial",
				"TestWebhookFailure", "TestWebhookMayNotPatch", "TestWebhookValidatesAll", "TestWebhookDryRun",
				"TestWebhookBeforeConflict", "TestWebhookDeletes"),
			tests("sim/client", "TestWebhooks", "TestWebhookTimeouts", "TestWebhookCalls"), tests("scenarios", "TestWebhookScenario"),
		),
	},
	{
		ID: "S74", Status: NotModelled,
		Behaviour: "Admission policies, which are CEL in objects of the cluster, change and check what is written.",
		Missing: "ValidatingAdmissionPolicy and MutatingAdmissionPolicy are not among the kinds below: requests for them are 404, and a " +
			"scenario that has some is not loaded",
	},
	{
		ID: "S62", Status: Modelled,
		Behaviour: "Custom resources are pruned, defaulted and validated by the schemas of their definitions, with " +
			"list types; unknown fields are ignored, warned of or refused.",
		Cases: slices.Concat(
			recordings("update-cr-schema-minimum", "create-unknown-field-warn"),
			tests("sim/apiserver/crd", "TestUpstream", "TestPruneAndDefault", "TestValidate", "TestValidateStatus"),
			tests("sim/apiserver/handler", "TestRules/custom, strict"),
		),
	},
	{
		ID: "S75", Status: Partly,
		Behaviour: "Rules of a definition in CEL are checked, with the old object where they ask for it, within a budget, and not where " +
			"the schema is broken already.",
		Missing: "a definition whose rules may cost too much is accepted here",
		Cases: slices.Concat(recordings("update-cr-validation-rule"),
			tests("sim/apiserver/crd/cel", "TestRules", "TestBlocked", "TestCost", "TestRefused"), server("TestVersionRules")),
	},
	{
		ID: "S76", Status: Modelled,
		Behaviour: "An update of a custom resource is not refused for what was invalid before and does not change.",
		Cases: slices.Concat(tests("sim/apiserver/crd", "TestUpstream", "TestValidate/a change beside what is invalid",
			"TestValidateStatus/a change beside what is invalid"), tests("sim/apiserver/crd/cel", "TestRules/what did not change")),
	},
	{
		ID: "S77", Status: Partly,
		Behaviour: "A custom resource with several versions is answered in the one that is asked for, by its schema, and stored in one.",
		Missing: "conversion webhooks: they are not called, and the verdict says so; versions are converted as with the strategy None, " +
			"which changes nothing but apiVersion",
		Cases: slices.Concat(server("TestVersions", "TestVersionRules", "TestVersionWarnings", "TestVersionsOwned", "TestVersionNames",
			"TestLoadVersions"), tests("sim/apiserver/handler", "TestVersions")),
	},
	{
		ID: "S78", Status: Partly,
		Behaviour: "A kind without a definition is 404.",
		Missing: "one of which a scenario has objects, or an operator Go types, is taken for a custom resource without a schema: nothing " +
			"is defaulted, pruned or validated; the verdict names each that was used",
		Cases: slices.Concat(recordings("unknown-resource"), server("TestUnknownKindRules", "TestWithTypes"),
			tests("scenarios", "TestUnknownKinds"), tests("sim/client", "TestUnknownKind")),
	},
	{
		ID: "S79", Status: NotModelled,
		Behaviour: "A definition that is created in the course of a run is served soon after; with a definition go its objects.",
		Missing: "definitions count from the start; one that is made later is stored and not served, which the verdict says. Those " +
			"that are there from the start can be read, with their status",
	},
	{
		ID: "S63", Status: NotModelled,
		Behaviour: "Creating more than a ResourceQuota allows is 403.",
		Missing:   "quotas are stored and nothing is counted",
	},
	{
		ID: "S64", Status: Modelled,
		Behaviour: "Nothing is created in a namespace that is going away (403, with a cause) or missing (404). The namespace " +
			"controller deletes its Pods, then the rest, says in conditions what is left, and lets the namespace go when nothing is.",
		Cases: slices.Concat(recordings("create-namespace-terminating"),
			server("TestNamespaceDelete", "TestTerminatingNamespaceRefuses", "TestFinalize", "TestFinalizeRemoves", "TestImmortalNamespaces",
				"TestNamespaceGone", "TestApplyPlaces"),
			tests("racer", "TestNamespaceGoes", "TestNamespacePodsFirst", "TestNamespaceHeld", "TestNamespaceFailure",
				"TestNamespaceFinalizers"),
			tests("scenarios", "TestRecreatedNamespace")),
	},
	{
		ID: "S65", Status: Partly,
		Behaviour: "Events are written by recorders, which count up repetitions; they are objects like others.",
		Missing:   "they are written at once, not later, and do not expire",
		Cases:     slices.Concat(tests("sim/client", "TestRecorders"), server("TestKindRows/Event")),
	},
	{
		ID: "S66", Status: Modelled,
		Behaviour: "A Lease is an object whose writers need its revision.",
		Cases:     recordings("lease-update-stale-rv", "update-empty-rv-leases"),
	},
}

var failures = []Row{
	{
		ID: "S67", Status: Modelled,
		Behaviour: "A write can be carried out though its answer is lost: the client sees a timeout or a broken connection.",
		Cases: slices.Concat(tests("reactors", "TestLostWriteIsSeen", "TestLostByTimeout", "TestLostConnection"),
			tests("sim", "TestPlannedFaults")),
	},
	{
		ID: "S68", Status: Modelled,
		Behaviour: "client-go makes any request again, ten times at most, after a 429 or 5xx with Retry-After: a " +
			"create that had been carried " +
			"out is then AlreadyExists.",
		Cases: slices.Concat(tests("sim", "TestRetries", "TestGenuineRetryAfter", "TestRetrySendsTheSame"),
			tests("reactors", "TestAppliedTwice")),
	},
	{
		ID: "S69", Status: Modelled,
		Behaviour: "After a broken connection it makes only reads again; a write ends in an error that is no API status.",
		Cases:     slices.Concat(tests("sim", "TestRetries", "TestPreviousError"), tests("reactors", "TestLostConnection")),
	},
	{
		ID: "S70", Status: Modelled,
		Behaviour: "The server's own failures have the codes, reasons and texts by which programs tell them apart.",
		Cases:     tests("reactors", "TestErrors", "TestCauses", "TestServerTimeoutOperations", "TestErrorsOfRequests"),
	},
	{
		ID: "S72", Status: Modelled,
		Behaviour: "An unknown path, kind, method or media type is refused as a real server does it.",
		Cases: slices.Concat(recordings("unknown-resource", "unsupported-media-type"), tests("sim/apiserver/handler",
			"TestRules", "FuzzHandler"),
			server("TestRefused")),
	},
}

var rights = []Row{
	{
		ID: "R1", Status: Modelled,
		Behaviour: "What the roles of a process do not allow is 403: verbs, groups, resources and subresources, " +
			"names, paths, by namespace.",
		Cases: slices.Concat(recordings("forbidden-update-status"), tests("sim/apiserver/rbac", "TestAllows", "TestFor", "TestForbidden"),
			server("TestRoles", "TestNamespacesRights"), tests("sim/apiserver/handler", "TestUsers"), tests("sim/client",
				"TestForbiddenWrite"), tests("scenarios", "TestAccess"), tests("sim/simtest", "TestRoles")),
	},
	{
		ID: "R2", Status: Modelled,
		Behaviour: "Who writes a role or a binding must have the rights that it gives, or those to escalate and to bind.",
		Cases:     slices.Concat(tests("sim/apiserver/rbac", "TestGrants"), server("TestEscalation", "TestEscalationByUpdate")),
	},
	{
		ID: "R3", Status: Modelled,
		Behaviour: "An informer that may neither list nor watch never has its list: a cached read blocks, a " +
			"controller gives up after its time, " +
			"and the program with it.",
		Cases: tests("sim/client", "TestForbiddenInformer", "TestForbiddenSource", "TestHalfForbiddenInformer"),
	},
	{
		ID: "R4", Status: Partly,
		Behaviour: "Aggregated ClusterRoles have the rules of those that their selectors choose; every cluster has roles of its own.",
		Missing: "of a cluster's own roles there are cluster-admin and those that everybody has; roles that are " +
			"written in the course of a run " +
			"do not change what a process may do",
		Cases: tests("sim/apiserver/rbac", "TestAggregation", "TestFor"),
	},
}

var caches = []Row{
	{
		ID: "C1", Status: Modelled,
		Behaviour: "A cache shows its kind as of some revision. Caches of different kinds, forms, namespaces and processes lag " +
			"independently.",
		Cases: slices.Concat(tests("sim/cache", "TestViewModel"), tests("sim/client", "TestOneCacheLags", "TestForms", "TestStaleness",
			"TestTwoProcesses", "TestNamespacesLagApart")),
	},
	{
		ID: "C2", Status: Modelled,
		Behaviour: "A program may not see its own write in its cache.",
		Cases:     tests("sim/client", "TestStaleness", "TestCachedReadsInTheGap", "TestReadYourWrites/plain"),
	},
	{
		ID: "C3", Status: Modelled,
		Behaviour: "It may see an effect before its cause, if they are of different kinds.",
		Cases:     tests("sim/client", "TestOneCacheLags"),
	},
	{
		ID: "C4", Status: Modelled,
		Behaviour: "The event of a write may come before its answer.",
		Cases:     tests("sim", "TestReturn"),
	},
	{
		ID: "C5", Status: Partly,
		Behaviour: "A cache changes before its handlers run; each handler gets every event in order, and those of " +
			"different handlers interleave.",
		Missing: "the handlers of one process run one at a time: one that waits for a call holds up the others",
		Cases:   slices.Concat(tests("sim/cache", "TestClientGo"), tests("sim/client", "TestSeveralControllers", "TestPredicates")),
	},
	{
		ID: "C6", Status: Modelled,
		Behaviour: "Every event of a watch is one call of a handler.",
		Cases:     tests("sim/cache", "TestClientGo"),
	},
	{
		ID: "C7", Status: Modelled,
		Behaviour: "A new list after 410 shows what is different now, and nothing of what was between: deletions of unknown final state " +
			"first, then updates and additions.",
		Cases: slices.Concat(tests("sim/cache", "TestRelistModel", "TestClientGo"), tests("sim/client", "TestRelistEvents"),
			tests("sim/apiserver/handler", "TestInformers")),
	},
	{
		ID: "C8", Status: Modelled,
		Behaviour: "What was deleted and created again in such a gap is one update, to another UID, which " +
			"GenerationChangedPredicate may drop.",
		Cases: slices.Concat(tests("sim/client", "TestPredicatesAtRelist"), tests("racer", "TestSetRecreatedInAGap",
			"TestOwnerRecreatedInAGap")),
	},
	{
		ID: "C9", Status: Modelled,
		Behaviour: "A tombstone has the last state that was known: owners are found by that.",
		Cases:     tests("sim/client", "TestTombstoneOwner"),
	},
	{
		ID: "C10", Status: Modelled,
		Behaviour: "A watch that breaks and goes on loses nothing, but time.",
		Cases: slices.Concat(tests("sim", "TestWatchFaults"), tests("reactors", "TestWatches"),
			tests("sim/apiserver/handler", "TestInformers")),
	},
	{
		ID: "C11", Status: NotModelled,
		Behaviour: "After a restart a program may read an older state than before, from an API server that lags behind another.",
		Missing:   "there is one API server, which is never behind",
	},
	{
		ID: "C12", Status: NotModelled,
		Behaviour: "A reflector whose revision the server does not have yet begins anew without one.",
		Missing:   "there is one API server, which has every revision that anybody has seen; real reflectors run against the HTTP handler",
	},
	{
		ID: "C13", Status: Modelled,
		Behaviour: "Handlers get the initial list first, and controllers wait for it, two minutes at most; a cached " +
			"read before the start is an error, and one of a new kind begins an informer and waits. Informers can be removed.",
		Cases: tests("sim/client", "TestBeforeStart", "TestHeldCache", "TestForbiddenSource", "TestRemovedInformer",
			"TestTwins/late and removed informers", "TestTwins/missing informers are errors"),
	},
	{
		ID: "C14", Status: Partly,
		Behaviour: "Every ten hours an informer tells its handlers of everything again.",
		Missing: "only if the manager's SyncPeriod says so (client.WithOptions), and without jitter: it would hide that a program has " +
			"lost an event",
		Cases: tests("sim/client", "TestTwins/resync"),
	},
	{
		ID: "C15", Status: Modelled,
		Behaviour: "A new list tells of objects that have not changed as updates to the same revision, which " +
			"predicates drop or queues put last.",
		Cases: tests("sim/client", "TestRelistPriority", "TestPredicatesAtRelist"),
	},
	{
		ID: "C16", Status: Modelled,
		Behaviour: "A cached read copies, unless that is waived, fills in the kind, and its NotFound names the kind; a cached list has no " +
			"order, no revision and no pages, and selects by field only where there is an index.",
		Cases: tests("sim/client", "TestReadErrors", "TestCachedList", "TestLateIndex", "TestListOrder", "TestTwins/indexes",
			"TestTwins/without deep copies", "TestTwins/cluster scope"),
	},
	{
		ID: "C17", Status: Modelled,
		Behaviour: "A cache can hold only what a selector chooses, or some namespaces: what leaves the selector is deleted from it, and " +
			"still exists.",
		Cases: tests("sim/client", "TestTwins/by label", "TestTwins/by field", "TestTwins/default selectors",
			"TestTwins/default namespaces", "TestTwins/namespaces by object", "TestRefusedOptions"),
	},
	{
		ID: "C18", Status: Partly,
		Behaviour: "A cache can hold metadata only, or what a transform makes of objects: a PUT of that wipes fields.",
		Missing:   "what a transform's error leads to: the object is cached as it is, and the verdict says so",
		Cases: slices.Concat(tests("sim/client", "TestForms", "TestTwins/transforms", "TestTwins/transform to another type",
			"TestTwins/metadata only and by namespace"), tests("sim/apiserver/handler", "TestPartialMetadata")),
	},
	{
		ID: "C19", Status: Modelled,
		Behaviour: "The API reader, and by default reads of unstructured objects, are live: one pass mixes fresh and stale reads.",
		Cases:     tests("sim/client", "TestStaleness", "TestCachedReadsInTheGap", "TestTwins/what is read live"),
	},
	{
		ID: "C20", Status: Modelled,
		Behaviour: "Event handlers, predicates and index functions are handed the cache's own objects: who changes one changes it for " +
			"all. What is read is a copy.",
		Cases: tests("sim/client", "TestTwins/handler that changes objects", "TestTwins/without deep copies", "TestCopies"),
	},
}

var queues = []Row{
	{
		ID: "C21", Status: Modelled,
		Behaviour: "client-go's queue hands a key to one worker at a time, and once more if it was added meanwhile.",
		Cases:     slices.Concat(tests("sim", "TestQueueOracle"), tests("sim/client", "TestOwnQueue", "TestSameKeyIsSerial")),
	},
	{
		ID: "C22", Status: Modelled,
		Behaviour: "controller-runtime's priority queue goes by priority and then by age; what the initial list adds comes last.",
		Cases:     slices.Concat(tests("sim", "TestQueueOracle"), tests("sim/client", "TestPriorities", "TestRelistPriority")),
	},
	{
		ID: "C23", Status: Modelled,
		Behaviour: "A key that fails waits 5 ms, then twice as long each time, and from the begin again after a success.",
		Cases:     tests("sim/client", "TestResults", "TestForgetOnSuccess"),
	},
	{
		ID: "C24", Status: Modelled,
		Behaviour: "An error puts the key back with a pause, whatever RequeueAfter says; a terminal error does not; " +
			"RequeueAfter forgets failures.",
		Cases: tests("sim/client", "TestResults", "TestForgetOnSuccess"),
	},
	{
		ID: "C25", Status: Modelled,
		Behaviour: "Of several times at which a key is to come back the first counts, and an event does not cancel a later one.",
		Cases:     tests("sim", "TestQueueOracle"),
	},
	{
		ID: "C26", Status: Modelled,
		Behaviour: "Workers of a controller work on different keys at once, two controllers on the same object.",
		Cases:     tests("sim/client", "TestSameKeyIsSerial", "TestSeveralControllers"),
	},
	{
		ID: "C27", Status: Partly,
		Behaviour: "A panic of a reconciler is recovered, and counts as an error.",
		Missing:   "here it ends the run, as a finding",
		Cases:     tests("sim/client", "TestPanics"),
	},
}

var processes = []Row{
	{
		ID: "C28", Status: Modelled,
		Behaviour: "A crash loses memory, queues and timers; the next start lists everything anew and never hears of " +
			"what was deleted meanwhile. " +
			"It can come between any two calls, and between a commit and its answer.",
		Cases: slices.Concat(tests("sim", "TestCrash", "TestCrashLoop", "TestUpgrade"), tests("reactors", "TestProcesses", "TestRestart")),
	},
	{
		ID: "C29", Status: NotModelled,
		Behaviour: "A leader that was paused can still write after another has taken over.",
		Missing:   "a process always leads, and there is one of it; two operators, or two processes of one, can be put into a scenario",
	},
	{
		ID: "C30", Status: NotModelled,
		Behaviour: "Caches and webhooks run on all replicas, whoever leads.",
		Missing:   "there is one replica",
	},
	{
		ID: "C31", Status: Partly,
		Behaviour: "Times in objects are whole seconds; the clocks of two machines differ.",
		Missing:   "all clocks are one",
		Cases:     server("TestWire"),
	},
	{
		ID: "C32", Status: Modelled,
		Behaviour: "The outcome of a request whose context ends is unknown: it may have been carried out.",
		Cases:     tests("sim", "TestCallWhoseContextEnds", "TestContextEndsBeforeTheAnswer", "TestContextEndsWhileWaiting"),
	},
	{
		ID: "C33", Status: Modelled,
		Behaviour: "Webhooks are served by a process: while it is down what they are asked about fails, or passes unseen, as their " +
			"failure policy says. They may make requests themselves.",
		Cases: tests("sim/client", "TestWebhookOfCrashedProcess", "TestWebhookCalls", "TestWebhookFaults"),
	},
	{
		ID: "C34", Status: NotModelled,
		Behaviour: "A program makes clients of its own from a rest.Config: clientsets, dynamic clients, informers.",
		Missing: "from the manager's rest.Config they get an error, and the verdict says so; from one that the program loads itself they " +
			"go past the simulation. In unit tests, simtest's Server.Config is for them",
	},
}

var others = []Row{
	{
		ID: "K1", Status: Modelled,
		Behaviour: "The StatefulSet controller.",
		Differs:   "what an update comes to, see the first table",
		Cases:     tests("racer", "TestTrace", "TestOrderedReady", "TestPodsInAGap"),
	},
	{
		ID: "K2", Status: Modelled,
		Behaviour: "The disruption controller computes the status of budgets, and gives evicted Pods two minutes to go.",
		Cases:     tests("racer", "TestBudgets", "TestEvictedInVain", "TestBudgetFails", "TestScaleOfAnother"),
	},
	{
		ID: "K3", Status: Partly,
		Behaviour: "A scheduler binds Pods, and kubelets run and end them.",
		Missing: "resources, affinity and taints in the choice of a node; containers, probes and images: a Pod becomes ready after a " +
			"given time",
		Cases: tests("racer", "TestScheduler", "TestSchedulerNodesByName", "TestKubelet", "TestKubeletKeepsTransitionTimes"),
	},
	{
		ID: "K4", Status: Partly,
		Behaviour: "Claims are bound, and stay as long as a Pod uses them.",
		Missing:   "PersistentVolumes: none is made or given back",
		Cases:     tests("racer", "TestVolumeBinder", "TestClaimOfAPodRecreatedInAGap"),
	},
	{
		ID: "K5", Status: Partly,
		Behaviour: "The Deployment and ReplicaSet controllers roll out, scale, pause, roll back and clean up.",
		Missing:   "a Deployment that waits for its deadline is not looked at every 5 ms, which changes nothing",
		Cases:     tests("racer", "TestRollout", "TestDeploymentCalls", "TestReplicaSetCalls"),
	},
	{
		ID: "K6", Status: Partly,
		Behaviour: "The Job controller makes Pods, counts those that end, and gives up; Jobs go some time after they have finished.",
		Missing:   "podFailurePolicy, successPolicy and backoffLimitPerIndex",
		Cases:     tests("racer", "TestJobs", "TestJobBackoff", "TestJobPods", "TestJobFaults"),
	},
	{
		ID: "K7", Status: Partly,
		Behaviour: "A horizontal pod autoscaler writes the scale of what it is about.",
		Missing:   "metrics: the scenario says what they would lead to",
		Cases:     tests("racer", "TestHorizontalPodAutoscaler", "TestAutoscalerCalls", "TestAutoscalerRaces"),
	},
	{
		ID: "K8", Status: Partly,
		Behaviour: "A node that is lost is tainted, its Pods are evicted, and they are deleted if the node is gone.",
		Missing:   "other taints than those of a lost node",
		Cases:     tests("racer", "TestLostNode", "TestLostNodeEnds"),
	},
	{
		ID: "K9", Status: NotModelled,
		Behaviour: "DaemonSets and CronJobs are acted upon; EndpointSlices, tokens and quotas are kept.",
		Missing: "nobody does it: their objects stay as they are written, unless a step of the script, a racer in Go or another " +
			"controller of the scenario writes to them",
	},
}
