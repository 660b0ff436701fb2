package handler_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/apiserver/handler"
)

// sound is a request that is answered with success.
type sound struct{ method, path, contentType, body string }

const podTemplate = `{"metadata":{"labels":{"app":"x"},"annotations":{"a":"b"}},"spec":{"restartPolicy":"Always",` +
	`"volumes":[{"name":"v","configMap":{"name":"c","items":[{"key":"k","path":"p","mode":420}]}}],"containers":[{"name":"c",` +
	`"image":"i","args":["a"],"ports":[{"containerPort":80,"name":"http"}],"env":[{"name":"A","valueFrom":{"fieldRef":` +
	`{"fieldPath":"metadata.name"}}}],"resources":{"limits":{"cpu":"1","memory":"1Gi"}},"volumeMounts":[{"name":"v",` +
	`"mountPath":"/v"}],"livenessProbe":{"httpGet":{"path":"/","port":"http"},"periodSeconds":3}}]}}`

const everyMeta = `"metadata":{"name":"m","namespace":"default","labels":{"l":"1"},"annotations":{"a":"1"},` +
	`"finalizers":["e.x/f"],"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"o","uid":"u","controller":true}],` +
	`"uid":"","resourceVersion":"","generation":1,"creationTimestamp":"2020-01-01T00:00:00Z"}`

// sounds are the requests that are malformed one place at a time.
var sounds = []sound{
	{"POST", mapsPath, "", `{"apiVersion":"v1","kind":"ConfigMap",` + everyMeta + `,"data":{"k":"v"},` +
		`"binaryData":{"b":"AA=="},"immutable":false}`},
	{"PUT", mapsPath + "/a", "", `{"metadata":{"name":"a"},"data":{"k":"v"}}`},
	{"POST", setsPath, "", `{` + everyMeta + `,"spec":{"replicas":1,"serviceName":"s","selector":{"matchLabels":{"app":"x"}},` +
		`"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"partition":0}},"template":` + podTemplate +
		`,"volumeClaimTemplates":[{"metadata":{"name":"d"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":` +
		`{"storage":"1Gi"}}}}]},"status":{"replicas":1}}`},
	{"PUT", setsPath + "/web/status", "", `{"metadata":{"name":"web"},"status":{"replicas":1,"conditions":[{"type":"T",` +
		`"status":"True","lastTransitionTime":"2020-01-01T00:00:00Z"}]}}`},
	{"PUT", setsPath + "/web/scale", "", `{"metadata":{"name":"web"},"spec":{"replicas":2}}`},
	{"POST", "/apis/apps/v1/namespaces/default/deployments", "", `{` + everyMeta + `,"spec":{"selector":{"matchExpressions":` +
		`[{"key":"app","operator":"In","values":["x"]}]},"strategy":{"rollingUpdate":{"maxSurge":"25%","maxUnavailable":0}},` +
		`"template":` + podTemplate + `}}`},
	{"POST", "/apis/batch/v1/namespaces/default/jobs", "", `{"metadata":{"name":"j"},"spec":{"parallelism":1,"template":{"spec":` +
		`{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}`},
	{"POST", "/apis/batch/v1/namespaces/default/cronjobs", "", `{"metadata":{"name":"j"},"spec":{"schedule":"* * * * *",` +
		`"jobTemplate":{"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}}}`},
	{"POST", "/api/v1/namespaces/default/services", "", `{"metadata":{"name":"s"},"spec":{"selector":{"app":"x"},"ports":` +
		`[{"port":80,"targetPort":"http","protocol":"TCP"}]}}`},
	{"POST", "/apis/networking.k8s.io/v1/namespaces/default/ingresses", "", `{"metadata":{"name":"i"},"spec":{"rules":[{"host":` +
		`"h.x","http":{"paths":[{"path":"/","pathType":"Prefix","backend":{"service":{"name":"s","port":{"number":80}}}}]}}]}}`},
	{"POST", "/apis/policy/v1/namespaces/default/poddisruptionbudgets", "", `{"metadata":{"name":"b"},"spec":{"minAvailable":1,` +
		`"selector":{"matchLabels":{"app":"x"}}}}`},
	{"POST", "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers", "", `{"metadata":{"name":"h"},"spec":{` +
		`"scaleTargetRef":{"apiVersion":"apps/v1","kind":"StatefulSet","name":"web"},"maxReplicas":3,"metrics":[{"type":"Resource",` +
		`"resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":50}}}]}}`},
	{"POST", "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles", "", `{"metadata":{"name":"r"},"rules":[{"apiGroups":` +
		`[""],"resources":["pods"],"verbs":["get"]}]}`},
	{"POST", "/apis/coordination.k8s.io/v1/namespaces/default/leases", "", `{"metadata":{"name":"l"},"spec":{"holderIdentity":"h",` +
		`"leaseDurationSeconds":15,"renewTime":"2020-01-01T00:00:00.000000Z"}}`},
	{"POST", "/api/v1/namespaces", "", `{"metadata":{"name":"n"}}`},
	{"POST", "/api/v1/namespaces/default/events", "", `{"metadata":{"name":"e","namespace":"default"},"involvedObject":{"kind":"Pod",` +
		`"namespace":"default","name":"p"},"reason":"R","type":"Normal","count":1,"firstTimestamp":"2020-01-01T00:00:00Z"}`},
	{"POST", widgetsPath, "", `{"apiVersion":"golden.example.com/v1","kind":"Widget",` + everyMeta +
		`,"spec":{"size":1,"color":"red"},"status":{"phase":"x"}}`},
	{"PUT", widgetsPath + "/w/status", "", `{"apiVersion":"golden.example.com/v1","kind":"Widget","metadata":{"name":"w",` +
		`"resourceVersion":"9"},"status":{"observedGeneration":1,"phase":"x"}}`},
	{"POST", "/api/v1/namespaces/default/pods", "", `{"metadata":{"name":"p"},"spec":{"nodeName":"n","containers":[{"name":"c",` +
		`"image":"i:1","startupProbe":{"tcpSocket":{"port":1}},"lifecycle":{"preStop":{"exec":{"command":["x"]}}}}],"initContainers":` +
		`[{"name":"i","image":"i:1"}]}}`},
	{"POST", "/api/v1/namespaces/default/persistentvolumeclaims", "", `{"metadata":{"name":"p"},"spec":{"accessModes":` +
		`["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}`},
	{"POST", "/api/v1/namespaces/default/secrets", "", `{"metadata":{"name":"s"},"stringData":{"k":"v"}}`},
	{"POST", "/api/v1/namespaces/default/serviceaccounts", "", `{"metadata":{"name":"s"},"imagePullSecrets":[{"name":"x"}]}`},
	{"POST", "/api/v1/nodes", "", `{"metadata":{"name":"n"},"spec":{"podCIDR":"10.0.0.0/24"},"status":{"capacity":{"cpu":"1"}}}`},
	{"POST", "/api/v1/persistentvolumes", "", `{"metadata":{"name":"v"},"spec":{"capacity":{"storage":"1Gi"},"accessModes":` +
		`["ReadWriteOnce"],"hostPath":{"path":"/x"}}}`},
	{"POST", "/apis/apps/v1/namespaces/default/daemonsets", "", `{"metadata":{"name":"d"},"spec":{"selector":{"matchLabels":` +
		`{"app":"x"}},"template":` + podTemplate + `}}`},
	{"POST", "/apis/apps/v1/namespaces/default/replicasets", "", `{"metadata":{"name":"r"},"spec":{"selector":{"matchLabels":` +
		`{"app":"x"}},"template":` + podTemplate + `}}`},
	{"POST", "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies", "", `{"metadata":{"name":"n"},"spec":{"podSelector":{},` +
		`"ingress":[{"from":[{"podSelector":{"matchLabels":{"a":"b"}}}],"ports":[{"port":80}]}]}}`},
	{"POST", "/apis/storage.k8s.io/v1/storageclasses", "", `{"metadata":{"name":"s"},"provisioner":"x.y/z"}`},
	{"POST", "/apis/scheduling.k8s.io/v1/priorityclasses", "", `{"metadata":{"name":"p"},"value":5}`},
	{"POST", "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings", "", `{"metadata":{"name":"r"},"roleRef":{` +
		`"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"r"},"subjects":[{"kind":"ServiceAccount","name":"s"}]}`},
	{"POST", "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", "", `{"metadata":{"name":"e"},"addressType":"IPv4",` +
		`"endpoints":[{"addresses":["10.0.0.1"]}],"ports":[{"port":80}]}`},
	{"POST", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", "", `{"metadata":{"name":"w"},"webhooks":[{` +
		`"name":"a.b.c","sideEffects":"None","admissionReviewVersions":["v1"],"clientConfig":{"url":"https://x/y"},"rules":[{` +
		`"operations":["CREATE"],"apiGroups":[""],"apiVersions":["v1"],"resources":["pods"]}]}]}`},
	{"PATCH", mapsPath + "/a", "application/merge-patch+json", `{"metadata":{"labels":{"x":"1"}},"data":{"k":"v","l":null}}`},
	{"PATCH", setsPath + "/web", "application/strategic-merge-patch+json", `{"metadata":{"finalizers":["e.x/f"]},"spec":{"template":` +
		`{"spec":{"containers":[{"name":"c","image":"j","env":[{"name":"A","value":"1"}]},{"$patch":"delete","name":"z"}],` +
		`"$setElementOrder/containers":[{"name":"c"}]}}}}`},
	{"PATCH", mapsPath + "/a", "application/json-patch+json", `[{"op":"add","path":"/metadata/labels","value":{"x":"1"}},` +
		`{"op":"test","path":"/metadata/name","value":"a"},{"op":"copy","from":"/metadata/labels","path":"/data"}]`},
	{"PATCH", mapsPath + "/a?fieldManager=f&force=true", "application/apply-patch+yaml", `{"apiVersion":"v1","kind":"ConfigMap",` +
		`"metadata":{"name":"a","labels":{"x":"1"},"finalizers":["e.x/f"]},"data":{"k":"v"}}`},
	{"PATCH", setsPath + "/web?fieldManager=f&force=true", "application/apply-patch+yaml", `{"apiVersion":"apps/v1",` +
		`"kind":"StatefulSet","metadata":{"name":"web"},"spec":{"replicas":2,"template":{"spec":{"containers":[{"name":"c",` +
		`"image":"k","ports":[{"containerPort":80}]}]}}}}`},
	{"PATCH", widgetsPath + "/w?fieldManager=f&force=true", "application/apply-patch+yaml", `{"apiVersion":"golden.example.com/v1",` +
		`"kind":"Widget","metadata":{"name":"w","annotations":{"x":"1"}},"spec":{"size":2}}`},
	{"PATCH", widgetsPath + "/w", "application/merge-patch+json", `{"metadata":{"labels":{"x":"1"}},"spec":{"size":3}}`},
	{"PATCH", setsPath + "/web/scale", "application/merge-patch+json", `{"spec":{"replicas":3}}`},
	{"DELETE", mapsPath + "/a", "", `{"apiVersion":"v1","kind":"DeleteOptions","gracePeriodSeconds":1,"propagationPolicy":"Orphan",` +
		`"preconditions":{"uid":null},"dryRun":["All"]}`},
}

// strange are the values that take the place of others.
var strange = []string{
	`null`, `true`, `0`, `-1`, `1.5`, `1e400`, `99999999999999999999`, `-2147483649`, `9223372036854775807`, `""`, `"x"`, `"\u0000"`,
	"\"\xff\xfe\"", `"\ud800"`, `"` + strings.Repeat("x", 300) + `"`, `[]`, `[null]`, `["x"]`, `[[]]`, `[{}]`, `{}`, `{"x":null}`,
	`{"x":{"y":[1]}}`, `{"":""}`, `{"a":1,"a":2}`, strings.Repeat("[", 12000) + strings.Repeat("]", 12000), `{`, `]`, ``, `+1`, `'x'`,
	`"2020-01-01T00:00:00Z"`, `"-5"`, `"1Ei"`, `"$patch"`, `{"$patch":"replace"}`, `{"$patch":"bogus"}`, `{"$retainKeys":["x"]}`,
}

// TestMalformed puts something strange into every place of requests that are sound, one place at a time, and checks how they are
// refused. By default it tries a sample; SIM_RUNS sets how many of each request, 0 for all.
func TestMalformed(t *testing.T) {
	snapshot := furnishedSnapshot(t)
	sample := 60
	if text := os.Getenv("SIM_RUNS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		sample = n
	}
	for _, s := range sounds {
		t.Run(s.method+" "+s.path, func(t *testing.T) {
			if code := sendTo(t, snapshot, s.request(t, s.body)); code >= 300 {
				t.Fatalf("the sound request is answered with %d", code)
			}
			all := variants(s.body)
			random := rand.New(rand.NewPCG(1, 2))
			random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
			if sample > 0 {
				all = all[:min(sample, len(all))]
			}
			for _, body := range all {
				code := sendTo(t, snapshot, s.request(t, body))
				if s.unreadable(body) && code != http.StatusBadRequest {
					t.Errorf("what cannot be read is answered with %d, want 400", code)
				}
				if t.Failed() {
					t.Fatalf("%d for %.2000s", code, body)
				}
			}
		})
	}
}

// unreadable reports whether a body is no JSON, or no object of its kind: client-go's decoder, which knows nothing of the server,
// says so. Only for objects of built-in kinds, as they are created.
func (s sound) unreadable(body string) bool {
	if s.method != http.MethodPost || s.path == widgetsPath {
		return false
	}
	kind := kinds().ByGVR(resourceOf(s.path))
	_, _, err := scheme.Codecs.UniversalDeserializer().Decode([]byte(body), &kind.GroupVersionKind, nil)
	return err != nil
}

// FuzzPlace puts anything into any place of the sound requests.
func FuzzPlace(f *testing.F) {
	for i := range sounds {
		for j, value := range strange {
			f.Add(uint16(i), uint16(7*i+j), value)
		}
	}
	snapshot := furnishedSnapshot(f)
	f.Fuzz(func(t *testing.T, which, place uint16, value string) {
		s := sounds[int(which)%len(sounds)]
		holes := holed(s.body)
		body := strings.Replace(holes[int(place)%len(holes)], hole, value, 1)
		if code := sendTo(t, snapshot, s.request(t, body)); s.unreadable(body) && code != http.StatusBadRequest {
			t.Errorf("what cannot be read is answered with %d, want 400", code)
		}
	})
}

func (s sound) request(t testing.TB, body string) *http.Request {
	t.Helper()
	r, err := http.NewRequest(s.method, "http://server.invalid"+s.path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", s.contentType)
	if s.contentType == "" {
		r.Header.Set("Content-Type", "application/json")
	}
	return r
}

// sendTo sends a request to a server of its own, and judges the answer. What is refused must not have changed anything.
func sendTo(t *testing.T, snapshot *apiserver.Snapshot, r *http.Request) (code int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := snapshot.NewServer(time.Now)
		before := server.Revision()
		code = exchangeAny(t, r, handler.New(handler.NewLocal(server)))
		if code >= 400 && r.Method != http.MethodDelete && server.Revision() != before {
			t.Errorf("%d, and yet something was committed", code)
		}
	})
	return code
}

func furnishedSnapshot(t testing.TB) *apiserver.Snapshot {
	t.Helper()
	var snapshot *apiserver.Snapshot
	furnished(t).Use(func(s *apiserver.Server) { snapshot = s.Snapshot() })
	return snapshot
}

// hole is where the strange value goes.
const hole = "\"\u2603\""

// variants returns a body with something strange in each of its places.
func variants(body string) []string {
	var all []string
	for _, holed := range holed(body) {
		for _, value := range strange {
			all = append(all, strings.Replace(holed, hole, value, 1))
		}
	}
	return all
}

// holed returns a body with a hole in each of its places.
func holed(body string) []string {
	var root any
	decoder := json.NewDecoder(strings.NewReader(body))
	decoder.UseNumber()
	if err := decoder.Decode(&root); err != nil {
		panic(err)
	}
	var all []string
	each(root, func(v any) { root = v }, func() {
		data, err := json.Marshal(root)
		if err != nil {
			panic(err)
		}
		all = append(all, string(data))
	})
	return all
}

// each puts the hole into every place of a value, one after another, and calls a function each time.
func each(value any, put func(any), visit func()) {
	put("\u2603")
	visit()
	put(value)
	switch v := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			each(v[name], func(inner any) { v[name] = inner }, visit)
		}
		v["unknown"] = "\u2603"
		visit()
		delete(v, "unknown")
	case []any:
		for i := range v {
			each(v[i], func(inner any) { v[i] = inner }, visit)
		}
	}
}

// parameters that requests take, and values they do not.
var (
	parameterNames = []string{
		"dryRun", "fieldManager", "fieldValidation", "force", "resourceVersion", "resourceVersionMatch", "limit", "continue",
		"labelSelector", "fieldSelector", "timeoutSeconds", "timeout", "watch", "sendInitialEvents", "allowWatchBookmarks",
		"gracePeriodSeconds", "propagationPolicy", "orphanDependents", "pretty", "export", "unknown",
	}
	parameterValues = []string{
		"", "x", "0", "-1", "1", "true", "false", "All", "Strict", "Exact", "NotOlderThan", "Orphan", "99999999999999999999", "1e3", "01",
		"a=b", "a==b,c!=d", "a in (b", "a in ()", "!a", "=", "a=b=c", "metadata.name=a", "metadata.name=", "spec.x=1", ",,", "\x00", "\xff",
		"%", "é", strings.Repeat("x", 200), "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiIuLi94In0", "e30", "bm90anNvbg",
		"eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiYVx1MDAwMCJ9", "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6OTk5LCJzdGFydCI6ImEifQ",
		"1s", "0s", "-1s",
	}
)

// TestMalformedParameters sends every parameter with every value.
func TestMalformedParameters(t *testing.T) {
	snapshot := furnishedSnapshot(t)
	for _, s := range []sound{
		{"GET", mapsPath, "", ""}, {"GET", mapsPath + "/a", "", ""}, {"GET", widgetsPath, "", ""}, {"DELETE", mapsPath, "", ""},
		{"DELETE", mapsPath + "/a", "", ""}, {"POST", mapsPath, "", `{"metadata":{"name":"b"}}`},
		{"PUT", mapsPath + "/a", "", `{"metadata":{"name":"a"},"data":{"k":"v"}}`},
		{"PATCH", mapsPath + "/a", "application/merge-patch+json", `{"data":{"k":"v"}}`},
		{"PATCH", widgetsPath + "/w", "application/apply-patch+yaml",
			`{"apiVersion":"golden.example.com/v1","kind":"Widget","metadata":{"name":"w"}}`},
	} {
		t.Run(s.method+" "+s.path, func(t *testing.T) {
			for _, name := range parameterNames {
				for _, value := range parameterValues {
					with := s
					with.path += "?" + url.Values{name: {value}}.Encode()
					if name != "fieldManager" && strings.HasPrefix(s.contentType, "application/apply") {
						with.path += "&fieldManager=f"
					}
					if code := sendTo(t, snapshot, with.request(t, s.body)); t.Failed() {
						t.Fatalf("%d for %s %s", code, s.method, with.path)
					}
				}
			}
		})
	}
}

// TestMalformedProtobuf sends objects in protobuf of which a byte is another, or which end too early.
func TestMalformedProtobuf(t *testing.T) {
	snapshot := furnishedSnapshot(t)
	encoder := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
	decoder := scheme.Codecs.UniversalDeserializer()
	random := rand.New(rand.NewPCG(3, 4))
	for _, s := range sounds {
		if s.method != "POST" || s.path == widgetsPath {
			continue
		}
		kind := kinds().ByGVR(resourceOf(s.path))
		obj, _, err := decoder.Decode([]byte(s.body), &kind.GroupVersionKind, nil)
		if err != nil {
			t.Fatal(err)
		}
		obj.GetObjectKind().SetGroupVersionKind(kind.GroupVersionKind)
		var buffer bytes.Buffer
		if err := runtime.Encoder(encoder).Encode(obj, &buffer); err != nil {
			t.Fatal(err)
		}
		s.contentType = "application/vnd.kubernetes.protobuf"
		if code := sendTo(t, snapshot, s.request(t, buffer.String())); code >= 300 {
			t.Fatalf("%s: the sound request is answered with %d", s.path, code)
		}
		for range 60 {
			body := slices.Clone(buffer.Bytes())
			switch at := random.IntN(len(body)); random.IntN(3) {
			case 0:
				body = body[:at]
			case 1:
				body[at] ^= 1 << random.IntN(8)
			default:
				body[at] = byte(random.IntN(256))
			}
			if code := sendTo(t, snapshot, s.request(t, string(body))); t.Failed() {
				t.Fatalf("%d for %s with %q", code, s.path, body)
			}
		}
	}
}

// resourceOf returns what a path to a collection is about.
func resourceOf(path string) schema.GroupVersionResource {
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	resource := parts[len(parts)-1]
	if parts[0] == "api" {
		return schema.GroupVersionResource{Version: parts[1], Resource: resource}
	}
	return schema.GroupVersionResource{Group: parts[1], Version: parts[2], Resource: resource}
}
