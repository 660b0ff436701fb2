package modeltest

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
)

// kind is what differs between kinds.
type kind struct {
	name, group, version, resource string

	cluster        bool // not in namespaces
	custom         bool
	status         bool   // has a status subresource
	statusKeeps    string // what a write to it leaves alone: "all" but the status, or the spec and these fields of the metadata
	scale          bool
	unconditional  bool // an update need not name a revision
	createOnUpdate bool
	orphans        bool // a delete without a policy orphans the dependents
	graceful       bool
	returnsDeleted bool // a delete answers with the object

	defaults  tree
	derive    func(obj tree)            // defaults that depend on other fields
	begin     func(obj tree)            // what the server adds to a new object
	update    func(obj, old tree)       // what it carries over
	reread    func(obj tree) bool       // defaults that are read, but not stored, and whether there are any
	counts    func(obj, old tree) bool  // whether the generation counts the change; nil for no generation
	valid     func(obj, old tree) bool  // old is nil for a new object
	selectors map[string]string         // field selectors and the paths of their values
	fresh     func(g *generator) tree   // a body to create one from
	edits     []func(*generator, tree)  // changes that are allowed
	bad       []func(*generator, tree)  // changes that may be refused
	statuses  []func(g *generator) tree // values for the status
	config    func(g *generator) tree   // what to apply
}

func (k *kind) apiVersion() string { return strings.TrimPrefix(k.group+"/"+k.version, "/") }

func specChanged(obj, old tree) bool { return !equal(obj["spec"], old["spec"]) }

var podDefaults = parse(`{
	"restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst", "securityContext": {},
	"schedulerName": "default-scheduler", "containers": {"*": {
		"resources": {}, "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
		"imagePullPolicy": "IfNotPresent"}}}`)

func podSpec() tree { return parse(`{"containers": [{"name": "c", "image": "i:1"}]}`) }

func template() tree { return tree{"metadata": parse(`{"labels": {"app": "x"}}`), "spec": podSpec()} }

// allKinds returns the kinds that the requests are about, as a version of Kubernetes has them.
func allKinds(version apiserver.Version) []*kind {
	sets := statefulSetKind()
	if version == apiserver.V137 {
		set(sets.defaults, 1.0, "spec", "updateStrategy", "rollingUpdate", "maxUnavailable")
	}
	return []*kind{
		configMapKind(), podKind(), sets, deploymentKind(), jobKind(), serviceKind(), leaseKind(), namespaceKind(),
		customKind("Tool", true), customKind("Part", false),
	}
}

func configMapKind() *kind {
	return &kind{
		name: "ConfigMap", version: "v1", resource: "configmaps", unconditional: true,
		valid: func(obj, old tree) bool {
			if old == nil || old["immutable"] != true {
				return true
			}
			return obj["immutable"] == true && equal(obj["data"], old["data"])
		},
		fresh: func(g *generator) tree { return tree{"data": tree{"k": g.value()}} },
		edits: []func(*generator, tree){
			func(g *generator, obj tree) { set(obj, g.value(), "data", g.pick("k", "l", "m")) },
			func(g *generator, obj tree) { set(obj, nil, "data", g.pick("k", "l", "m")) },
		},
		bad:    []func(*generator, tree){func(g *generator, obj tree) { obj["immutable"] = true }},
		config: func(g *generator) tree { return tree{"data": g.some("k", "l", "m")} },
	}
}

func podKind() *kind {
	changeable := func(spec any) tree {
		s := clone(spec.(tree))
		for _, c := range list(s, "containers") {
			delete(c.(tree), "image")
		}
		delete(s, "activeDeadlineSeconds")
		return s
	}
	return &kind{
		name: "Pod", version: "v1", resource: "pods", unconditional: true, status: true, statusKeeps: "ownerReferences",
		graceful: true, returnsDeleted: true,
		defaults: tree{"spec": mergePatch(podDefaults, parse(`{"enableServiceLinks": true}`))},
		begin: func(obj tree) {
			obj["status"] = parse(`{"phase": "Pending", "qosClass": "BestEffort"}`)
			fill(fields(obj, "spec"), parse(`{"priority": 0, "preemptionPolicy": "PreemptLowerPriority"}`))
			tolerate(obj)
		},
		update: func(obj, old tree) {
			if text(obj, "status", "qosClass") == "" {
				set(obj, "BestEffort", "status", "qosClass")
			}
			tolerate(obj)
			spec := fields(obj, "spec")
			for _, name := range []string{"priority", "preemptionPolicy"} {
				if spec[name] == nil {
					keep(spec, fields(old, "spec"), name)
				}
			}
		},
		counts: specChanged,
		valid: func(obj, old tree) bool {
			if len(list(obj, "spec", "containers")) == 0 {
				return false
			}
			return old == nil || reflect.DeepEqual(changeable(obj["spec"]), changeable(old["spec"]))
		},
		selectors: map[string]string{"status.phase": "status.phase", "spec.nodeName": "spec.nodeName"},
		fresh: func(g *generator) tree {
			spec := podSpec()
			set(spec, g.maybe("node1", "node1", "node2"), "nodeName")
			if g.chance(4) {
				spec["terminationGracePeriodSeconds"] = float64(g.n(4))
			}
			return tree{"spec": spec}
		},
		edits: []func(*generator, tree){func(g *generator, obj tree) {
			if c := list(obj, "spec", "containers"); len(c) > 0 {
				c[0].(tree)["image"] = "i:" + g.pick("1", "2", "3")
			}
		}},
		bad: []func(*generator, tree){
			func(g *generator, obj tree) { set(obj, g.pick("node1", "node3"), "spec", "nodeName") },
			func(g *generator, obj tree) { set(obj, "h", "spec", "hostname") },
		},
		statuses: []func(*generator) tree{func(g *generator) tree {
			return tree{"phase": g.pick("Pending", "Running", "Running", "Succeeded", "Failed"), "message": g.value()}
		}},
	}
}

// tolerate is the admission plugin DefaultTolerationSeconds.
func tolerate(obj tree) {
	tolerations := list(obj, "spec", "tolerations")
	for _, taint := range []string{"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"} {
		if !slices.ContainsFunc(tolerations, func(t any) bool { return text(t, "key") == taint }) {
			tolerations = append(tolerations, tree{
				"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300.0,
			})
		}
	}
	set(obj, tolerations, "spec", "tolerations")
}

func atLeast(least float64, path ...string) func(tree) bool {
	return func(obj tree) bool { return get(obj, path...) == nil || number(obj, path...) >= least }
}

var replicated = atLeast(0, "spec", "replicas")

func setReplicas(g *generator, obj tree) { set(obj, float64(g.n(5)), "spec", "replicas") }

func setTemplate(g *generator, obj tree) {
	if c := list(obj, "spec", "template", "spec", "containers"); len(c) > 0 {
		c[0].(tree)["image"] = "i:" + g.pick("1", "2")
	}
}

func workload(k kind) *kind {
	k.group, k.version, k.unconditional, k.status, k.scale = "apps", "v1", true, true, true
	k.config = func(g *generator) tree { return tree{"spec": tree{"replicas": float64(g.n(5))}} }
	k.edits = []func(*generator, tree){setReplicas, setTemplate}
	k.bad = append(k.bad,
		func(g *generator, obj tree) { set(obj, -1.0, "spec", "replicas") },
		func(g *generator, obj tree) { set(obj, "y", "spec", "selector", "matchLabels", "app") })
	k.statuses = []func(*generator) tree{
		func(g *generator) tree {
			return tree{"replicas": float64(g.n(3)), "observedGeneration": float64(g.n(3))}
		},
		func(g *generator) tree { return tree{"replicas": -1.0} },
	}
	return &k
}

func selects(obj tree) bool {
	return equal(get(obj, "spec", "selector", "matchLabels"), get(obj, "spec", "template", "metadata", "labels")) &&
		len(fields(obj, "spec", "selector", "matchLabels")) > 0
}

func statefulSetKind() *kind {
	return workload(kind{
		name: "StatefulSet", resource: "statefulsets", statusKeeps: "spec", counts: specChanged,
		defaults: tree{"spec": mergePatch(parse(`{
			"replicas": 1, "podManagementPolicy": "OrderedReady", "revisionHistoryLimit": 10,
			"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
			"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"}}`),
			tree{"template": tree{"spec": podDefaults}})},
		valid: func(obj, old tree) bool {
			if !replicated(obj) || number(obj, "status", "replicas") < 0 || !selects(obj) {
				return false
			}
			if old == nil {
				return true
			}
			for _, name := range []string{"serviceName", "podManagementPolicy", "selector"} {
				if !equal(get(obj, "spec", name), get(old, "spec", name)) {
					return false
				}
			}
			return true
		},
		fresh: func(g *generator) tree {
			return tree{"spec": tree{
				"serviceName": "s", "selector": parse(`{"matchLabels": {"app": "x"}}`), "template": template(),
				"replicas": g.maybe(0.0, 2.0, 3.0),
			}}
		},
		bad: []func(*generator, tree){func(g *generator, obj tree) { set(obj, g.pick("s", "t"), "spec", "serviceName") }},
	})
}

func deploymentKind() *kind {
	return workload(kind{
		name: "Deployment", resource: "deployments", statusKeeps: "labels",
		counts: func(obj, old tree) bool {
			return specChanged(obj, old) || !equal(get(obj, "metadata", "annotations"), get(old, "metadata", "annotations"))
		},
		defaults: tree{"spec": mergePatch(parse(`{
			"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600,
			"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}}}`),
			tree{"template": tree{"spec": podDefaults}})},
		valid: func(obj, old tree) bool {
			return replicated(obj) && number(obj, "status", "replicas") >= 0 && selects(obj) &&
				(old == nil || equal(get(obj, "spec", "selector"), get(old, "spec", "selector")))
		},
		fresh: func(g *generator) tree {
			return tree{"spec": tree{
				"selector": parse(`{"matchLabels": {"app": "x"}}`), "template": template(), "replicas": g.maybe(0.0, 2.0),
			}}
		},
	})
}

func jobKind() *kind {
	return &kind{
		name: "Job", group: "batch", version: "v1", resource: "jobs", unconditional: true, status: true, statusKeeps: "spec",
		orphans: true, counts: specChanged,
		defaults: tree{"spec": mergePatch(parse(`{
			"backoffLimit": 6, "manualSelector": false, "completionMode": "NonIndexed",
			"suspend": false, "podReplacementPolicy": "TerminatingOrFailed"}`), tree{"template": tree{"spec": podDefaults}})},
		begin: func(obj tree) {
			if get(obj, "spec", "selector") != nil {
				return // it is not for clients to choose
			}
			uid, name := text(obj, "metadata", "uid"), text(obj, "metadata", "name")
			for _, prefix := range []string{"", "batch.kubernetes.io/"} {
				set(obj, uid, "spec", "template", "metadata", "labels", prefix+"controller-uid")
				set(obj, name, "spec", "template", "metadata", "labels", prefix+"job-name")
			}
			set(obj, tree{"batch.kubernetes.io/controller-uid": uid}, "spec", "selector", "matchLabels")
		},
		reread: labelJob,
		derive: func(obj tree) {
			if spec := fields(obj, "spec"); spec != nil && spec["parallelism"] == nil {
				spec["parallelism"] = 1.0
				if spec["completions"] == nil {
					spec["completions"] = 1.0
				}
			}
			labelJob(obj)
		},
		valid: func(obj, old tree) bool {
			if len(list(obj, "spec", "template", "spec", "containers")) == 0 ||
				!atLeast(0, "spec", "parallelism")(obj) || !atLeast(0, "spec", "backoffLimit")(obj) {
				return false
			}
			if old == nil {
				selected := text(obj, "spec", "selector", "matchLabels", "batch.kubernetes.io/controller-uid")
				return selected == text(obj, "metadata", "uid")
			}
			for _, name := range []string{"template", "selector", "completions"} {
				if !equal(get(obj, "spec", name), get(old, "spec", name)) {
					return false
				}
			}
			return true
		},
		fresh: func(g *generator) tree {
			spec := podSpec()
			spec["restartPolicy"] = "Never"
			return tree{"spec": tree{"template": tree{"spec": spec}, "parallelism": g.maybe(2.0)}}
		},
		edits: []func(*generator, tree){
			func(g *generator, obj tree) { set(obj, float64(g.n(4)), "spec", "parallelism") },
			func(g *generator, obj tree) { set(obj, float64(g.n(4)), "spec", "backoffLimit") },
		},
		bad: []func(*generator, tree){
			setTemplate,
			func(g *generator, obj tree) { set(obj, -1.0, "spec", "parallelism") },
		},
		statuses: []func(*generator) tree{func(g *generator) tree { return tree{"active": float64(g.n(3))} }},
	}
}

// labelJob gives a Job without labels those of its template, and reports whether it did.
func labelJob(obj tree) bool {
	labels := fields(obj, "spec", "template", "metadata", "labels")
	if len(fields(obj, "metadata", "labels")) > 0 || len(labels) == 0 {
		return false
	}
	set(obj, clone(labels), "metadata", "labels")
	return true
}

func serviceKind() *kind {
	return &kind{
		name: "Service", version: "v1", resource: "services", unconditional: true, createOnUpdate: true, status: true,
		statusKeeps: "spec", returnsDeleted: true,
		defaults: parse(`{"spec": {"sessionAffinity": "None", "type": "ClusterIP", "internalTrafficPolicy": "Cluster",
			"ports": {"*": {"protocol": "TCP"}}}}`),
		begin: func(obj tree) {
			fill(fields(obj, "spec"), parse(`{"clusterIPs": ["None"], "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"}`))
		},
		derive: func(obj tree) {
			for _, p := range list(obj, "spec", "ports") {
				fill(p.(tree), tree{"targetPort": p.(tree)["port"]})
			}
		},
		update: func(obj, old tree) {
			spec := fields(obj, "spec")
			for _, name := range []string{"clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"} {
				if spec[name] == nil {
					keep(spec, fields(old, "spec"), name)
				}
			}
		},
		valid: func(obj, old tree) bool {
			if text(obj, "spec", "clusterIP") != "" && len(list(obj, "spec", "clusterIPs")) == 0 {
				return false // nothing is allocated for one that a write to its status makes
			}
			if n := len(list(obj, "spec", "ports")); n > 1 || n == 0 && text(obj, "spec", "clusterIP") != "None" {
				return false // several ports need names, which they never have here
			}
			for _, p := range list(obj, "spec", "ports") {
				if n := number(p, "port"); n < 1 || n > 65535 {
					return false
				}
			}
			return true
		},
		fresh: func(g *generator) tree {
			return tree{"spec": tree{"clusterIP": "None", "selector": tree{"app": "x"}}}
		},
		edits: []func(*generator, tree){
			func(g *generator, obj tree) { set(obj, g.value(), "spec", "selector", "app") },
			func(g *generator, obj tree) { set(obj, []any{tree{"port": float64(80 + g.n(2))}}, "spec", "ports") },
		},
		bad: []func(*generator, tree){func(g *generator, obj tree) {
			set(obj, []any{tree{"port": 70000.0}}, "spec", "ports")
		}},
		statuses: []func(*generator) tree{func(g *generator) tree { return tree{"loadBalancer": tree{}} }},
	}
}

func leaseKind() *kind {
	return &kind{
		name: "Lease", group: "coordination.k8s.io", version: "v1", resource: "leases", createOnUpdate: true,
		valid: func(obj, _ tree) bool { return atLeast(1, "spec", "leaseDurationSeconds")(obj) },
		fresh: func(g *generator) tree { return tree{"spec": tree{"holderIdentity": g.value()}} },
		edits: []func(*generator, tree){
			func(g *generator, obj tree) { set(obj, g.value(), "spec", "holderIdentity") },
			func(g *generator, obj tree) { set(obj, float64(10+g.n(3)), "spec", "leaseDurationSeconds") },
		},
		bad: []func(*generator, tree){func(g *generator, obj tree) { set(obj, 0.0, "spec", "leaseDurationSeconds") }},
	}
}

func namespaceKind() *kind {
	return &kind{
		name: "Namespace", version: "v1", resource: "namespaces", cluster: true, unconditional: true, status: true,
		statusKeeps: "spec", returnsDeleted: true, selectors: map[string]string{"status.phase": "status.phase"},
		begin: func(obj tree) {
			obj["spec"] = parse(`{"finalizers": ["kubernetes"]}`)
			obj["status"] = parse(`{"phase": "Active"}`)
		},
		update: func(obj, old tree) {
			keep(obj, old, "spec")
			keep(obj, old, "status")
		},
		defaults: parse(`{"status": {"phase": "Active"}}`),
		valid: func(obj, _ tree) bool {
			return (text(obj, "status", "phase") == "Terminating") == (get(obj, "metadata", "deletionTimestamp") != nil)
		},
		fresh: func(g *generator) tree { return tree{} },
	}
}

func customKind(name string, status bool) *kind {
	k := &kind{
		name: name, group: "model.example.com", version: "v1", resource: strings.ToLower(name) + "s", custom: true, status: status,
		statusKeeps: "all", defaults: parse(`{"spec": {"size": 7}}`),
		counts: func(obj, old tree) bool {
			a, b := maps.Clone(obj), maps.Clone(old)
			for _, t := range []tree{a, b} {
				delete(t, "metadata")
				if status {
					delete(t, "status")
				}
			}
			return !reflect.DeepEqual(a, b)
		},
		valid: func(obj, _ tree) bool {
			names := map[string]bool{}
			if named, ok := fields(obj, "spec")["named"]; ok && named == nil {
				return false
			}
			for _, item := range list(obj, "spec", "named") {
				if names[text(item, "name")] {
					return false
				}
				names[text(item, "name")] = true
			}
			size, isNumber := get(obj, "spec", "size").(float64)
			return (obj["spec"] == nil || isNumber && size >= 0) && number(obj, "status", "count") >= 0 &&
				text(obj, "status", "count") == ""
		},
		selectors: map[string]string{"spec.color": "spec.color"},
		fresh: func(g *generator) tree {
			spec := tree{}
			set(spec, g.maybe(1.0, 2.0), "size")
			set(spec, g.maybe("red", "blue"), "color")
			return tree{"spec": spec}
		},
		edits: []func(*generator, tree){
			func(g *generator, obj tree) { set(obj, float64(g.n(4)), "spec", "size") },
			func(g *generator, obj tree) { set(obj, g.maybe("red", "blue"), "spec", "color") },
			func(g *generator, obj tree) { set(obj, g.items(), "spec", "named") },
			func(g *generator, obj tree) { set(obj, float64(g.n(3)), "status", "count") },
		},
		bad: []func(*generator, tree){
			func(g *generator, obj tree) { set(obj, -1.0, "spec", "size") },
			func(g *generator, obj tree) { set(obj, "many", "spec", "size") },
			func(g *generator, obj tree) {
				set(obj, []any{tree{"name": "a"}, tree{"name": "b"}, tree{"name": "a"}}, "spec", "named")
			},
		},
		statuses: []func(*generator) tree{
			func(g *generator) tree { return tree{"count": float64(g.n(3)), "phase": g.value()} },
			func(g *generator) tree { return tree{"count": choose(g, []any{-1.0, "many"})} },
		},
		config: func(g *generator) tree {
			spec := tree{}
			set(spec, g.maybe(1.0, 2.0), "size")
			set(spec, g.maybe("red", "blue"), "color")
			set(spec, g.items(), "named")
			return tree{"spec": spec}
		},
	}
	return k
}
