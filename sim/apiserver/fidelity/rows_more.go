package fidelity

import "slices"

var extensions = []Row{
	{
		ID: "S59", Status: Partly,
		Behaviour: "The scale of a workload is read and written by itself, with its revision as a lock, and an apply " +
			"to it owns the replicas.",
		Missing: "the scale of custom resources",
		Cases:   slices.Concat(recordings("scale-update", "scale-update-stale-rv"), server("TestScalePatch", "TestApplyScale")),
	},
	{
		ID: "S60", Status: NotModelled,
		Behaviour: "An eviction asks the disruption budgets of a Pod, and is 429 where they allow none.",
		Missing:   "pods/eviction is 404, and nobody computes the status of budgets",
	},
	{
		ID: "S61", Status: NotModelled,
		Behaviour: "Webhooks change and check what is written, in order, with a time limit and a policy for their failure.",
		Missing: "webhook configurations are stored and not called; that a webhook fails or denies is a fault that can be injected " +
			"(Forbidden, InternalError)",
	},
	{
		ID: "S62", Status: Partly,
		Behaviour: "Custom resources are pruned, defaulted and validated by the schemas of their definitions, with " +
			"list types; unknown fields " +
			"are ignored, warned of or refused.",
		Missing: "validation rules in CEL, and other versions than the stored one",
		Cases: slices.Concat(
			recordings("update-cr-schema-minimum", "create-unknown-field-warn"),
			tests("sim/apiserver/crd", "TestPruneAndDefault", "TestValidate", "TestValidateStatus", "TestLoadErrors", "FuzzLoad"),
			tests("sim/apiserver/handler", "TestRules/custom, strict"),
		),
	},
	{
		ID: "S63", Status: NotModelled,
		Behaviour: "Creating more than a ResourceQuota allows is 403.",
		Missing:   "quotas are stored and nothing is counted",
	},
	{
		ID: "S64", Status: Partly,
		Behaviour: "Nothing is created in a namespace that is going away (403) or missing (404); its contents are " +
			"deleted, and then it goes.",
		Missing: "nobody empties it: it stays until its contents and its own finalizers are gone by other hands",
		Cases: slices.Concat(recordings("create-namespace-terminating"), server("TestTerminatingNamespace",
			"TestNamespaces", "TestApplyPlaces")),
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
				"TestForbiddenWrite")),
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
		Behaviour: "A cache shows its kind as of some revision. Caches of different kinds, forms and processes lag independently.",
		Cases: slices.Concat(tests("sim/cache", "TestViewModel"), tests("sim/client", "TestOneCacheLags", "TestForms", "TestStaleness",
			"TestTwoProcesses")),
	},
	{
		ID: "C2", Status: Modelled,
		Behaviour: "A program may not see its own write in its cache.",
		Cases:     tests("sim/client", "TestStaleness", "TestCachedReadsInTheGap"),
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
		ID: "C5", Status: Modelled,
		Behaviour: "A cache changes before its handlers run; each handler gets every event in order, and those of " +
			"different handlers interleave.",
		Cases: slices.Concat(tests("sim/cache", "TestClientGo"), tests("sim/client", "TestSeveralControllers", "TestPredicates")),
	},
	{
		ID: "C6", Status: Modelled,
		Behaviour: "Every event of a watch is one call of a handler.",
		Cases:     tests("sim/cache", "TestClientGo"),
	},
	{
		ID: "C7", Status: Modelled,
		Behaviour: "A new list after 410 shows only what differs: deletions of unknown final state first, then updates and additions.",
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
			"read before the start is an error, " +
			"and one of a new kind begins an informer and waits.",
		Cases: tests("sim/client", "TestBeforeStart", "TestHeldCache", "TestPriorities", "TestForbiddenSource"),
	},
	{
		ID: "C14", Status: NotModelled,
		Behaviour: "Every ten hours an informer tells its handlers of everything again.",
		Missing:   "left out on purpose: it would hide that a program has lost an event",
	},
	{
		ID: "C15", Status: Modelled,
		Behaviour: "A new list tells of objects that have not changed as updates to the same revision, which " +
			"predicates drop or queues put last.",
		Cases: tests("sim/client", "TestRelistPriority", "TestPredicatesAtRelist"),
	},
	{
		ID: "C16", Status: Partly,
		Behaviour: "A cached read copies, fills in the kind, and its NotFound names the kind; a cached list has no " +
			"order, no revision and no pages.",
		Missing: "UnsafeDisableDeepCopy: whoever asks for it gets copies, too",
		Cases:   tests("sim/client", "TestReadErrors", "TestCachedList", "TestLateIndex", "TestRandomOrders"),
	},
	{
		ID: "C17", Status: NotModelled,
		Behaviour: "A cache can hold only what a selector chooses, or some namespaces: the server knows more than it shows.",
		Missing:   "a manager's cache options are not looked at: its informers hold everything of their kind",
	},
	{
		ID: "C18", Status: Partly,
		Behaviour: "A cache can hold metadata only, or what a transform makes of objects: a PUT of that wipes fields.",
		Missing:   "transforms",
		Cases:     slices.Concat(tests("sim/client", "TestForms"), tests("sim/apiserver/handler", "TestPartialMetadata")),
	},
	{
		ID: "C19", Status: Modelled,
		Behaviour: "The API reader, and by default reads of unstructured objects, are live: one pass mixes fresh and stale reads.",
		Cases:     tests("sim/client", "TestStaleness", "TestCachedReadsInTheGap", "TestUntyped"),
	},
	{
		ID: "C20", Status: NotModelled,
		Behaviour: "Event handlers and predicates share the objects of a cache: who changes one changes it for all.",
		Missing:   "everybody gets copies, so that this mistake is not found here; client-go's mutation detector finds it",
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
		Behaviour: "A key that fails waits 5 ms, doubled up to 1000 s, and from the begin again after a success.",
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
		Cases:     slices.Concat(tests("sim", "TestQueueOracle"), tests("sim/client", "TestResults")),
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
		Missing:   "a process always leads, and there is one of it",
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
		Cases:     slices.Concat(server("TestWire"), tests("sim", "TestEpoch", "TestInstantsAreUnique")),
	},
	{
		ID: "C32", Status: Modelled,
		Behaviour: "controller-runtime's client is not slowed down; the outcome of a request whose context ends is unknown.",
		Cases:     tests("sim", "TestRetries", "TestCallWhoseContextEnds", "TestContextEndsBeforeTheAnswer", "TestContextEndsWhileWaiting"),
	},
}
