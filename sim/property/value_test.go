package property_test

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/property"
)

func statefulSet(name string, replicas int32) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "default", UID: "7c6f5d1a-0000-4000-8000-000000000001", ResourceVersion: "7", Generation: 2,
			CreationTimestamp: metav1.Date(2031, 1, 1, 12, 0, 0, 0, time.UTC),
			Labels:            map[string]string{"app": name, "tier": "db"},
			Annotations:       map[string]string{},
			OwnerReferences:   []metav1.OwnerReference{{Kind: "ClickHouseInstallation", Name: "a", UID: "u-1"}},
		},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &replicas,
			UpdateStrategy: appsv1.StatefulSetUpdateStrategy{
				Type: appsv1.RollingUpdateStatefulSetStrategyType,
				RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{
					MaxUnavailable: &intstr.IntOrString{Type: intstr.String, StrVal: "25%"},
				},
			},
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{
				Name:  "db",
				Ports: []corev1.ContainerPort{{ContainerPort: 9000}},
				Resources: corev1.ResourceRequirements{
					Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("2Gi")},
				},
				LivenessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
					HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(8123)},
				}},
			}}}},
		},
		Status: appsv1.StatefulSetStatus{Replicas: 0, CurrentRevision: "r-1"},
	}
}

func testObjects(t *testing.T) map[string]apiserver.Object {
	return map[string]apiserver.Object{
		"StatefulSet": statefulSet("web", 0),
		"Secret": &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: "web"},
			Data:       map[string][]byte{"password": []byte("hunter2")},
		},
		"ControllerRevision": &appsv1.ControllerRevision{
			ObjectMeta: metav1.ObjectMeta{Name: "web"},
			Data:       runtime.RawExtension{Raw: []byte(`{"spec":{"n":3,"f":1.5,"list":[1,"a"]}}`)},
			Revision:   4,
		},
		"ClickHouseInstallation": fromJSON(t, `{"apiVersion": "example.com/v1", "kind": "ClickHouseInstallation",
			"metadata": {"name": "web", "creationTimestamp": "2031-01-01T12:00:00Z", "labels": {"a/b": "c"}},
			"spec": {"replicas": 2, "weight": 3, "paused": false, "since": "2031-01-01T12:00:00.5Z", "grace": "1m30s",
				"token": "aHVudGVyMg==", "port": 80, "max-parallel": 5, "namespace": "ns", "note": null,
				"settings": {"b": "2", "a": "1", "c": "3"}, "free": {"x": {"y": [1, 2.5, null]}},
				"open": {"known": "k", "other": 4},
				"pod": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"nodeName": "n"}},
				"hosts": [{"name": "h0", "shard": 0}, {"name": "h1"}]}}`),
		"Anything": fromJSON(t, `{"apiVersion": "example.com/v1", "kind": "Anything", "metadata": {"name": "web"},
			"spec": {"n": 3, "list": ["a"]}}`),
	}
}

// TestReading checks what rules see of objects. Each rule must hold, on the object as it is stored and as unstructured.
func TestReading(t *testing.T) {
	tests := []struct{ kind, rule string }{
		{"StatefulSet", `x != null`},
		{"StatefulSet", `x.apiVersion == "apps/v1" && x.kind == "StatefulSet"`},
		{"StatefulSet", `x.metadata.name == "web" && x.metadata.namespace == "default" && x.metadata.__namespace__ == "default"`},
		{"StatefulSet", `x.spec.replicas == 0`},
		{"StatefulSet", `x.status.replicas == 0`},
		{"StatefulSet", `!has(x.status.readyReplicas)`},
		{"StatefulSet", `x.?status.?readyReplicas.orValue(0) == 0`},
		{"StatefulSet", `!has(x.metadata.deletionTimestamp) && !has(x.metadata.annotations) && !has(x.spec.selector)`},
		{"StatefulSet", `has(x.status) && has(x.spec.template.spec)`},
		{"StatefulSet", `x.metadata.creationTimestamp == timestamp("2031-01-01T12:00:00Z")`},
		{"StatefulSet", `x.metadata.creationTimestamp + duration("5m") > timestamp("2031-01-01T12:04:59Z")`},
		{"StatefulSet", `x.metadata.labels["app"] == "web" && x.metadata.labels.tier == "db" && "app" in x.metadata.labels`},
		{"StatefulSet", `x.metadata.labels[?"none"].orValue("-") == "-" && x.metadata.?annotations["a"].orValue("") == ""`},
		{"StatefulSet", `x.metadata.labels == {"tier": "db", "app": "web"} && {"tier": "db", "app": "web"} == x.metadata.labels`},
		{"StatefulSet", `x.metadata.labels != {"tier": "db"} && x.metadata.labels.size() == 2`},
		{"StatefulSet", `x.metadata.labels.map(k, k) == ["app", "tier"]`},
		{"StatefulSet", `x.metadata.labels.all(k, v, k == "tier" ? v == "db" : v == "web")`},
		{"StatefulSet", `x.metadata.ownerReferences.exists(o, o.uid == "u-1" && !has(o.controller))`},
		{"StatefulSet", `x.spec.updateStrategy.type == "RollingUpdate"`},
		{"StatefulSet", `x.spec.updateStrategy.rollingUpdate.maxUnavailable == "25%"`},
		{"StatefulSet", `x.spec.template.spec.containers[0].livenessProbe.httpGet.port == 8123`},
		{"StatefulSet", `type(x.spec.template.spec.containers[0].livenessProbe.httpGet.port) == int`},
		{"StatefulSet", `x.spec.template.spec.containers[0].resources.limits["memory"] == "2Gi"`},
		{"StatefulSet", `quantity(x.spec.template.spec.containers[0].resources.limits["memory"]).isGreaterThan(quantity("1Gi"))`},
		{"StatefulSet", `x.spec.template.spec.containers.map(c, c.name) == ["db"]`},
		{"StatefulSet", `x.spec.template.spec.containers[0].ports[0].containerPort == 9000`},
		{"StatefulSet", `x == x && x.spec.template == x.spec.template && dyn(x.spec) != dyn(x.status)`},
		{"StatefulSet", `dyn(x.spec)["replicas"] == 0 && dyn(x.spec).replicas == 0`},
		{"StatefulSet", `x.metadata.name.matches("^w") && x.metadata.name.find("e") == "e" && [3, 1].sum() == 4`},
		{"StatefulSet", `type(x.spec) == type(x.spec)`},
		{"Secret", `x.data["password"] == b"hunter2" && string(x.data.password) == "hunter2"`},
		{"ControllerRevision", `x.data.spec.n == 3 && x.data.spec.f == 1.5 && x.data.spec.list[1] == "a" && x.revision == 4`},
		{"ControllerRevision", `has(x.data.spec) && !has(x.data.none) && x.data.?none.?deeper.orValue(1) == 1`},
		{"ClickHouseInstallation", `x.spec.replicas == 2 && x.spec.weight == 3.0 && !x.spec.paused`},
		{"ClickHouseInstallation", `x.spec.since > x.metadata.creationTimestamp && x.spec.grace == duration("90s")`},
		{"ClickHouseInstallation", `x.spec.token == b"hunter2" && x.spec.port == 80`},
		{"ClickHouseInstallation", `x.spec.max__dash__parallel == 5 && x.spec.namespace == "ns"`},
		{"ClickHouseInstallation", `!has(x.spec.note) && !has(x.status) && x.?status.?status.orValue("") != "Completed"`},
		{"ClickHouseInstallation", `x.spec.settings.map(k, k + x.spec.settings[k]) == ["a1", "b2", "c3"]`},
		{"ClickHouseInstallation", `x.spec.free.x.y == [dyn(1), dyn(2.5), dyn(null)] && x.spec.free.size() == 1`},
		{"ClickHouseInstallation", `x.spec.open.known == "k" && dyn(x.spec.open).other == 4 && !has(dyn(x.spec.open).none)`},
		{"ClickHouseInstallation", `x.spec.pod.metadata.name == "p" && dyn(x.spec.pod).spec.nodeName == "n"`},
		{"ClickHouseInstallation", `x.spec.hosts.exists_one(h, has(h.shard)) && x.spec.hosts.filter(h, h.name == "h1").size() == 1`},
		{"ClickHouseInstallation", `x.spec.hosts.map(h, h.name) + ["h2"] == ["h0", "h1", "h2"]`},
		{"ClickHouseInstallation", `x.metadata.labels["a/b"] == "c" && x.metadata.name == "web"`},
		{"Anything", `x.spec.n == 3 && x.spec.list == ["a"] && x.metadata.name == "web" && x.kind == "Anything"`},
		{"Anything", `!has(x.status) && x.?status.?ready.orValue(7) == 7`},
	}
	objects := testObjects(t)
	for _, test := range tests {
		t.Run(test.kind+"/"+test.rule, func(t *testing.T) {
			set := compile(t, []property.Variable{{Name: "x", Kind: test.kind, ObjectName: "web"}},
				property.Definition{Name: "p", Type: property.Always, Rule: test.rule})
			stored := objects[test.kind]
			for form, obj := range map[string]apiserver.Object{"stored": stored, "unstructured": asUnstructured(t, stored)} {
				c := newCluster()
				c.put(test.kind, obj)
				m := set.NewMonitor(c)
				m.Start(0)
				if v := m.Verdicts()[0]; v.Status != property.Held {
					t.Errorf("%s: %s %s %v", form, v.Status, v.Error, v.Values)
				}
			}
		})
	}
}

// TestReadingErrors checks that what is absent is an error, and what the error says.
func TestReadingErrors(t *testing.T) {
	tests := []struct{ rule, want string }{
		{`sts.status.readyReplicas == 0`,
			`no such key: readyReplicas: it is absent there; test it with has() or != null, or read it with .?readyReplicas.orValue(…)`},
		{`gone.spec.replicas == 0`,
			`no such key: spec: it is absent there; test it with has() or != null, or read it with .?spec.orValue(…)`},
		{`sts.metadata.labels["none"] == ""`,
			`no such key: none: it is absent there; test it with has() or != null, or read it with .?none.orValue(…)`},
		{`sts.metadata.labels["a/b"] == ""`,
			`no such key: a/b: it is absent there; test it with has() or != null, or read it with [?"a/b"].orValue(…)`},
		{`sts.spec.template.spec.containers[1].name == ""`, `index out of bounds: 1`},
		{`chi.spec.replicas == 1`, `invalid data: string where a int is declared`},
		{`chi.spec.since == timestamp("2031-01-01T12:00:00Z")`, `invalid data: "yesterday" is no timestamp`},
		{`chi.spec.token == b""`, `invalid data: illegal base64 data at input byte 0`},
		{`[1,2,3,4,5,6,7,8,9,10].all(a, [1,2,3,4,5,6,7,8,9,10].all(b, [1,2,3,4,5,6,7,8,9,10].all(c,` +
			`[1,2,3,4,5,6,7,8,9,10].all(d, [1,2,3,4,5,6,7,8,9,10].all(e, a+b+c+d+e > 0)))))`,
			`operation cancelled: actual cost limit exceeded`},
	}
	c := newCluster()
	c.put("StatefulSet", statefulSet("web", 0))
	c.put("ClickHouseInstallation", fromJSON(t, `{"apiVersion": "example.com/v1", "kind": "ClickHouseInstallation",
		"metadata": {"name": "a"}, "spec": {"replicas": "two", "since": "yesterday", "token": "!"}}`))
	for _, test := range tests {
		t.Run(test.rule, func(t *testing.T) {
			set := compile(t, []property.Variable{
				{Name: "sts", Kind: "StatefulSet", ObjectName: "web"},
				{Name: "gone", Kind: "StatefulSet", ObjectName: "gone"},
				{Name: "chi", Kind: "ClickHouseInstallation", ObjectName: "a"},
			}, property.Definition{Name: "p", Type: property.Always, Rule: test.rule})
			m := set.NewMonitor(c)
			m.Start(0)
			if v := m.Verdicts()[0]; v.Status != property.Invalid || v.Error != test.want || m.Broken() {
				t.Errorf("got %s %q, want Invalid %q", v.Status, v.Error, test.want)
			}
		})
	}
}
