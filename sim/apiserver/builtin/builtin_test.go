package builtin_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/stalemate-dev/stalemate/sim/apiserver/builtin"
)

// parse decodes an object from YAML.
func parse[T any](t testing.TB, text string) *T {
	t.Helper()
	object := new(T)
	if err := yaml.UnmarshalStrict([]byte(text), object); err != nil {
		t.Fatal(err)
	}
	return object
}

func checkYAML[T any](t *testing.T, want string, got *T) {
	t.Helper()
	if diff := cmp.Diff(asJSON(t, parse[T](t, want)), asJSON(t, got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

const (
	selected = "selector: {matchLabels: {app: web}}"
	podText  = "{containers: [{name: c, image: 'busybox:1'}]}"
	// madePod is podText with its defaults.
	madePod = `{containers: [{name: c, image: 'busybox:1', imagePullPolicy: IfNotPresent,
		terminationMessagePath: /dev/termination-log, terminationMessagePolicy: File}],
		dnsPolicy: ClusterFirst, restartPolicy: Always, schedulerName: default-scheduler,
		securityContext: {}, terminationGracePeriodSeconds: 30}`
	template     = "template: {metadata: {labels: {app: web}}, spec: " + podText + "}"
	madeTemplate = "template: {metadata: {labels: {app: web}}, spec: " + madePod + "}"
	retain       = "persistentVolumeClaimRetentionPolicy: {whenDeleted: Retain, whenScaled: Retain}"
)

func TestDefaultStatefulSet(t *testing.T) {
	made := "podManagementPolicy: OrderedReady, replicas: 1, revisionHistoryLimit: 10, " + retain + ", " + madeTemplate
	tests := []struct{ name, version, in, want string }{
		{"1.36", "1.36", "", "updateStrategy: {type: RollingUpdate, rollingUpdate: {partition: 0}}"},
		{"1.37", "1.37", "", "updateStrategy: {type: RollingUpdate, rollingUpdate: {partition: 0, maxUnavailable: 1}}"},
		{"the type alone stays alone", "1.37", "updateStrategy: {type: RollingUpdate}", "updateStrategy: {type: RollingUpdate}"},
		{"a partition keeps its type", "1.36", "updateStrategy: {rollingUpdate: {partition: 2}}",
			"updateStrategy: {type: RollingUpdate, rollingUpdate: {partition: 2}}"},
		{"OnDelete", "1.37", "updateStrategy: {type: OnDelete}", "updateStrategy: {type: OnDelete}"},
		{"claims", "1.36", "updateStrategy: {type: OnDelete}, volumeClaimTemplates: [{metadata: {name: data}}]",
			"updateStrategy: {type: OnDelete}, volumeClaimTemplates: [{apiVersion: v1, kind: PersistentVolumeClaim, " +
				"metadata: {name: data}, spec: {volumeMode: Filesystem}, status: {phase: Pending}}]"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			set := parse[appsv1.StatefulSet](t, "spec: {"+strings.Join([]string{selected, template, test.in}, ", ")+"}")
			builtin.DefaultStatefulSet(set, test.version)
			want := "spec: {" + strings.Join([]string{selected, made, test.want}, ", ") + "}"
			checkYAML(t, want, set)
			builtin.DefaultStatefulSet(set, test.version)
			checkYAML(t, want, set) // defaults are their own defaults
		})
	}
}

// TestPrepareStatefulSet drops what 1.36 does not know, and leaves alone what the client sent.
func TestPrepareStatefulSet(t *testing.T) {
	sent := parse[appsv1.StatefulSet](t, "spec: {updateStrategy: {rollingUpdate: {partition: 1, maxUnavailable: 2}}}")
	kept := *sent
	builtin.PrepareStatefulSet(&kept)
	checkYAML(t, "spec: {updateStrategy: {rollingUpdate: {partition: 1}}}", &kept)
	checkYAML(t, "spec: {updateStrategy: {rollingUpdate: {partition: 1, maxUnavailable: 2}}}", sent)
}

func TestDefaultPod(t *testing.T) {
	pod := parse[corev1.Pod](t, `
spec:
  hostNetwork: true
  containers:
  - name: a
    image: registry:5000/a
    ports: [{containerPort: 80}]
    resources: {limits: {cpu: 1, memory: 1Gi}, requests: {cpu: 0.0001}}
    env: [{name: IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}]
    livenessProbe: {httpGet: {port: 80}}
    readinessProbe: {grpc: {port: 80}, periodSeconds: 3}
    lifecycle: {preStop: {httpGet: {port: 80}}}
  - {name: b, image: 'b@sha256:00'}
  initContainers: [{name: i, image: 'i:latest'}]
  volumes:
  - {name: none}
  - {name: secret, secret: {secretName: s}}
  - {name: config, configMap: {name: c, defaultMode: 256}}
  - {name: host, hostPath: {path: /}}
  - name: projected
    projected:
      sources:
      - {serviceAccountToken: {path: t}}
      - {downwardAPI: {items: [{path: p, fieldRef: {fieldPath: metadata.name}}]}}
  - {name: claimed, ephemeral: {volumeClaimTemplate: {spec: {}}}}
`)
	builtin.DefaultPod(pod, "1.36")
	const message = "terminationMessagePath: /dev/termination-log, terminationMessagePolicy: File"
	checkYAML(t, `
spec:
  hostNetwork: true
  containers:
  - name: a
    image: registry:5000/a
    imagePullPolicy: Always
    ports: [{containerPort: 80, hostPort: 80, protocol: TCP}]
    resources: {limits: {cpu: 1, memory: 1Gi}, requests: {cpu: 1m, memory: 1Gi}}
    env: [{name: IP, valueFrom: {fieldRef: {apiVersion: v1, fieldPath: status.podIP}}}]
    livenessProbe: {httpGet: {port: 80, path: /, scheme: HTTP},
      timeoutSeconds: 1, periodSeconds: 10, successThreshold: 1, failureThreshold: 3}
    readinessProbe: {grpc: {port: 80, service: ""}, timeoutSeconds: 1, periodSeconds: 3, successThreshold: 1, failureThreshold: 3}
    lifecycle: {preStop: {httpGet: {port: 80, path: /, scheme: HTTP}}}
    terminationMessagePath: /dev/termination-log
    terminationMessagePolicy: File
  - {name: b, image: 'b@sha256:00', imagePullPolicy: IfNotPresent, `+message+`}
  initContainers: [{name: i, image: 'i:latest', imagePullPolicy: Always, `+message+`}]
  volumes:
  - {name: none, emptyDir: {}}
  - {name: secret, secret: {secretName: s, defaultMode: 420}}
  - {name: config, configMap: {name: c, defaultMode: 256}}
  - {name: host, hostPath: {path: /, type: ""}}
  - name: projected
    projected:
      defaultMode: 420
      sources:
      - {serviceAccountToken: {path: t, expirationSeconds: 3600}}
      - {downwardAPI: {items: [{path: p, fieldRef: {apiVersion: v1, fieldPath: metadata.name}}]}}
  - {name: claimed, ephemeral: {volumeClaimTemplate: {spec: {volumeMode: Filesystem}}}}
  dnsPolicy: ClusterFirst
  restartPolicy: Always
  schedulerName: default-scheduler
  securityContext: {}
  terminationGracePeriodSeconds: 30
  enableServiceLinks: true
`, pod)
}

func TestDefaultOthers(t *testing.T) {
	service := parse[corev1.Service](t, "spec: {type: LoadBalancer, ports: [{port: 80}], sessionAffinity: ClientIP}")
	builtin.DefaultService(service, "1.36")
	checkYAML(t, `spec: {type: LoadBalancer, ports: [{port: 80, targetPort: 80, protocol: TCP}], sessionAffinity: ClientIP,
		sessionAffinityConfig: {clientIP: {timeoutSeconds: 10800}}, externalTrafficPolicy: Cluster, internalTrafficPolicy: Cluster,
		allocateLoadBalancerNodePorts: true}`, service)

	secret := parse[corev1.Secret](t, "{data: {a: QQ==}, stringData: {b: B}}")
	builtin.DefaultSecret(secret, "1.36")
	checkYAML(t, "{type: Opaque, data: {a: QQ==, b: Qg==}}", secret)

	namespace := parse[corev1.Namespace](t, "metadata: {name: n}")
	builtin.DefaultNamespace(namespace, "1.36")
	builtin.PrepareNamespace(namespace)
	checkYAML(t, "{metadata: {name: n, labels: {kubernetes.io/metadata.name: n}}, spec: {finalizers: "+
		"[kubernetes]}, status: {phase: Active}}", namespace)

	node := parse[corev1.Node](t, "status: {capacity: {cpu: 2}}")
	builtin.DefaultNode(node, "1.36")
	checkYAML(t, "status: {capacity: {cpu: 2}, allocatable: {cpu: 2}}", node)
}

func TestPrepareService(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"an address", "{selector: {a: b}}",
			"{selector: {a: b}, clusterIP: 10.109.218.235, clusterIPs: [10.109.218.235], ipFamilies: [IPv4], ipFamilyPolicy: SingleStack}"},
		{"a wish", "{clusterIP: 10.0.0.9}", "{clusterIP: 10.0.0.9, clusterIPs: [10.0.0.9], ipFamilies: [IPv4], " +
			"ipFamilyPolicy: SingleStack}"},
		{"headless", "{clusterIP: None, selector: {a: b}}",
			"{clusterIP: None, clusterIPs: [None], selector: {a: b}, ipFamilies: [IPv4], ipFamilyPolicy: SingleStack}"},
		{"headless for anything", "{clusterIP: None}",
			"{clusterIP: None, clusterIPs: [None], ipFamilies: [IPv4, IPv6], ipFamilyPolicy: RequireDualStack}"},
		{"outside", "{type: ExternalName, externalName: a.b}", "{type: ExternalName, externalName: a.b}"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			service := parse[corev1.Service](t, "spec: "+test.in)
			builtin.PrepareService(service)
			checkYAML(t, "spec: "+test.want, service)
			update := parse[corev1.Service](t, "spec: "+test.in)
			builtin.PrepareServiceUpdate(update, service)
			checkYAML(t, "spec: "+test.want, update)
		})
	}
}

func TestPreparePod(t *testing.T) {
	pod := parse[corev1.Pod](t, `{spec: {containers: [{resources: {limits: {cpu: 1, memory: 1}}}], schedulingGates: [{name: g}],
		tolerations: [{operator: Exists, key: node.kubernetes.io/not-ready, effect: NoExecute}]}, status: {phase: Running}}`)
	builtin.PreparePod(pod)
	var keys []string
	for _, toleration := range pod.Spec.Tolerations {
		keys = append(keys, toleration.Key)
	}
	if want := []string{"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}; !slices.Equal(keys, want) {
		t.Errorf("tolerations are %v", keys)
	}
	status := pod.Status
	if status.Phase != corev1.PodPending || status.QOSClass != corev1.PodQOSGuaranteed ||
		status.Conditions[0].Reason != "SchedulingGated" {
		t.Errorf("status is %+v", status)
	}
	next := &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	builtin.PreparePodStatus(next, pod, metav1.Time{})
	if next.Status.QOSClass != corev1.PodQOSGuaranteed || next.Status.Phase != corev1.PodRunning {
		t.Errorf("status is %+v", next.Status)
	}
	pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{})
	if got := builtin.QOSClass(pod); got != corev1.PodQOSBurstable {
		t.Errorf("class is %s", got)
	}
}

func TestPodGracePeriod(t *testing.T) {
	tests := []struct {
		name, pod string
		seconds   *int64
		want      int64
	}{
		{"bound", "spec: {nodeName: n, terminationGracePeriodSeconds: 20}", nil, 20},
		{"asked for", "spec: {nodeName: n, terminationGracePeriodSeconds: 20}", new(int64(5)), 5},
		{"at once", "spec: {nodeName: n, terminationGracePeriodSeconds: 20}", new(int64(0)), 0},
		{"negative", "spec: {nodeName: n, terminationGracePeriodSeconds: -20}", nil, 1},
		{"unbound", "spec: {terminationGracePeriodSeconds: 20}", new(int64(5)), 0},
		{"failed", "{spec: {nodeName: n, terminationGracePeriodSeconds: 20}, status: {phase: Failed}}", nil, 0},
		{"succeeded", "{spec: {nodeName: n, terminationGracePeriodSeconds: 20}, status: {phase: Succeeded}}", nil, 0},
	}
	for _, test := range tests {
		got, graceful := builtin.PodGracePeriod(parse[corev1.Pod](t, test.pod), &metav1.DeleteOptions{GracePeriodSeconds: test.seconds})
		if got != test.want || !graceful {
			t.Errorf("%s: %d s, want %d", test.name, got, test.want)
		}
	}
}

// validation is a case of TestValidate: an object, what was stored before (empty on creation), and the errors.
type validation struct {
	name, object, old string
	want              []string
}

// check runs cases through a kind's functions, defaulting first as the pipeline does.
func check[T any](t *testing.T, defaults func(*T, string), validate func(obj, old *T, version string) field.ErrorList,
	tests []validation) {
	t.Helper()
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			object := parse[T](t, test.object)
			defaults(object, "1.36")
			var old *T
			if test.old != "" {
				old = parse[T](t, test.old)
				defaults(old, "1.36")
			}
			before := asJSON(t, object)
			var got []string
			for _, err := range validate(object, old, "1.36") {
				text, _, _ := strings.Cut(err.Error(), "\n")
				got = append(got, text)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, asJSON(t, object)); diff != "" {
				t.Errorf("validation changed the object:\n%s", diff)
			}
		})
	}
}

func TestValidateStatefulSet(t *testing.T) {
	set := func(fields ...string) string { return "spec: {" + strings.Join(fields, ", ") + "}" }
	const pod = "spec.template.spec."
	check(t, builtin.DefaultStatefulSet, builtin.ValidateStatefulSet, []validation{
		{"valid", set(selected, template), "", nil},
		{"empty", "spec: {}", "", []string{"spec.selector: Required value",
			"spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`",
			pod + "containers: Required value"}},
		{"numbers", set(selected, template, "replicas: -1, minReadySeconds: -2, revisionHistoryLimit: -3, ordinals: "+
			"{start: -4}"), "",
			[]string{
				"spec.replicas: Invalid value: -1: must be greater than or equal to 0",
				"spec.minReadySeconds: Invalid value: -2: must be greater than or equal to 0",
				"spec.ordinals.start: Invalid value: -4: must be greater than or equal to 0"}}, // and nobody minds the history
		{"enums", set(selected, template, "podManagementPolicy: A, updateStrategy: {type: B}, "+
			"persistentVolumeClaimRetentionPolicy: {whenScaled: C}"), "",
			[]string{
				`spec.podManagementPolicy: Invalid value: "A": must be 'OrderedReady' or 'Parallel'`,
				`spec.updateStrategy: Invalid value: {"Type":"B","RollingUpdate":null}: must be 'RollingUpdate' or 'OnDelete'`,
				`spec.persistentVolumeClaimRetentionPolicy.whenScaled: Unsupported value: "C": supported values: "Retain", "Delete"`}},
		{"OnDelete with a partition", set(selected, template, "updateStrategy: {type: OnDelete, rollingUpdate: "+
			"{partition: 1}}"), "",
			[]string{`spec.updateStrategy.rollingUpdate: Invalid value: {"Partition":1,"MaxUnavailable":null}: only allowed for updateStrategy ` +
				`'RollingUpdate'`}},
		{"selector of others", set("selector: {matchLabels: {app: db}}", template), "",
			[]string{"spec.template.metadata.labels: Invalid value: {\"app\":\"web\"}: `selector` does not match template `labels`"}},
		{"pod that never restarts", set(selected, "template: {metadata: {labels: {app: web}}, spec: "+
			"{restartPolicy: Never, activeDeadlineSeconds: 1, containers: [{name: c, image: i}]}}"), "", []string{
			pod + `restartPolicy: Unsupported value: "Never": supported values: "Always"`,
			pod + `activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in StatefulSet is not Supported`}},
		{"claims are volumes", set(selected, "template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c, image: i, "+
			"volumeMounts: [{name: data, mountPath: /d}, {name: logs, mountPath: /l}]}]}}",
			"volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: "+
				"{storage: 1Gi}}}}]"), "",
			[]string{pod + `containers[0].volumeMounts[1].name: Not found: "logs"`}},
		{"claim without a size", set(selected, template, "volumeClaimTemplates: [{metadata: {name: data}, spec: {}}]"), "",
			[]string{
				"spec.volumeClaimTemplates[0].spec.accessModes: Required value: at least 1 access mode is required",
				"spec.volumeClaimTemplates[0].spec.resources[storage]: Required value"}},
		{"an old flaw stays", set(selected, "replicas: 2", "template: {metadata: {labels: {app: web}}, spec: {containers: []}}"),
			set(selected, "template: {metadata: {labels: {app: web}}, spec: {containers: []}}"), nil},
		{"a new flaw", set(selected, "template: {metadata: {labels: {app: web}}, spec: {containers: []}}"), set(selected, template),
			[]string{pod + "containers: Required value"}},
		{"what may change", set(selected, template, "replicas: 2, minReadySeconds: 1, revisionHistoryLimit: 1, "+
			"ordinals: {start: 1}, "+
			"updateStrategy: {type: OnDelete}, persistentVolumeClaimRetentionPolicy: {whenScaled: Delete}"), set(selected, template), nil},
	})
}

func TestValidateStatefulSetStatus(t *testing.T) {
	check(t, builtin.DefaultStatefulSet, builtin.ValidateStatefulSetStatus, []validation{
		{"valid", "status: {replicas: 3, readyReplicas: 2, currentReplicas: 3, updatedReplicas: 1, availableReplicas: " +
			"1}", "{}", nil},
		{"too many", "status: {replicas: 1, readyReplicas: 2, currentReplicas: 3, updatedReplicas: 4, availableReplicas: 5}", "{}",
			[]string{
				"status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas",
				"status.currentReplicas: Invalid value: 3: cannot be greater than status.replicas",
				"status.updatedReplicas: Invalid value: 4: cannot be greater than status.replicas",
				"status.availableReplicas: Invalid value: 5: cannot be greater than status.replicas",
				"status.availableReplicas: Invalid value: 5: cannot be greater than status.readyReplicas"}},
		{"negative", "status: {replicas: -1, readyReplicas: -1, currentReplicas: -1, updatedReplicas: -1, " +
			"availableReplicas: -1}", "{}",
			[]string{
				"status.replicas: Invalid value: -1: must be greater than or equal to 0",
				"status.readyReplicas: Invalid value: -1: must be greater than or equal to 0",
				"status.currentReplicas: Invalid value: -1: must be greater than or equal to 0",
				"status.updatedReplicas: Invalid value: -1: must be greater than or equal to 0",
				"status.availableReplicas: Invalid value: -1: must be greater than or equal to 0"}},
		{"collisions", "status: {collisionCount: 1}", "status: {collisionCount: 2}",
			[]string{"status.collisionCount: Invalid value: 1: cannot be decremented"}},
	})
}

func TestValidatePod(t *testing.T) {
	pod := func(fields string) string { return "spec: {containers: [{name: c, image: i}], " + fields + "}" }
	check(t, builtin.DefaultPod, builtin.ValidatePod, []validation{
		{"valid", pod("volumes: [{name: v}], nodeName: n"), "", nil},
		{"containers", "spec: {containers: [{}, {name: A, image: ' i'}, {name: b, image: i}], initContainers: [{name: " +
			"b, image: i}]}", "",
			[]string{
				"spec.containers[0].name: Required value", "spec.containers[0].image: Required value",
				`spec.containers[1].name: Invalid value: "A": a lowercase RFC 1123 label must consist of lower case ` +
					`alphanumeric characters or '-', ` +
					`and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for ` +
					`validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`,
				`spec.initContainers[0].name: Duplicate value: "b"`,
				`spec.containers[1].image: Invalid value: " i": must not have leading or trailing whitespace`}},
		{"ports", "spec: {containers: [{name: c, image: i, ports: [{}, {containerPort: 70000, protocol: ICMP}, " +
			"{name: p, containerPort: 1}, {name: p, containerPort: 2, hostPort: -1}]}]}", "", []string{
			"spec.containers[0].ports[0].containerPort: Required value",
			"spec.containers[0].ports[1].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
			`spec.containers[0].ports[1].protocol: Unsupported value: "ICMP": supported values: "SCTP", "TCP", "UDP"`,
			`spec.containers[0].ports[3].name: Duplicate value: "p"`,
			"spec.containers[0].ports[3].hostPort: Invalid value: -1: must be between 1 and 65535, inclusive"}},
		{"env", "spec: {containers: [{name: c, image: i, env: [{}, {name: a, value: v, valueFrom: {fieldRef: " +
			"{fieldPath: p}}}, {name: b, valueFrom: {}}]}]}", "",
			[]string{
				"spec.containers[0].env[0].name: Required value",
				"spec.containers[0].env[1].valueFrom.fieldRef.fieldPath: Invalid value: \"p\": error converting fieldPath: field label " +
					"not supported: p",
				"spec.containers[0].env[1].valueFrom: Invalid value: \"\": may not be specified when `value` is not empty",
				"spec.containers[0].env[2].valueFrom: Invalid value: \"\": must specify one of: `fieldRef`, " +
					"`resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"}},
		{"resources", "spec: {containers: [{name: c, image: i, resources: {limits: {cpu: 1, memory: -1}, requests: " +
			"{cpu: 2}}}]}", "",
			[]string{
				"spec.containers[0].resources.limits[memory]: Invalid value: \"-1\": must be greater than or equal to 0",
				"spec.containers[0].resources.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1",
				"spec.containers[0].resources.requests[memory]: Invalid value: \"-1\": must be greater than or equal to 0"}},
		{"probes", "spec: {containers: [{name: c, image: i, livenessProbe: {tcpSocket: {port: 1}, successThreshold: " +
			"2}, readinessProbe: {}}]}", "",
			[]string{
				"spec.containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1",
				"spec.containers[0].readinessProbe: Required value: must specify a handler type"}},
		{"volumes", pod("volumes: [{}, {name: v, secret: {}}, {name: v, emptyDir: {}, configMap: {name: c}}]"), "", []string{
			"spec.volumes[0].name: Required value",
			"spec.volumes[1].secret.secretName: Required value",
			"spec.volumes[2].configMap: Forbidden: may not specify more than 1 volume type"}},
		{"policies", pod("restartPolicy: A, dnsPolicy: B, activeDeadlineSeconds: 0, hostname: web"), "", []string{
			`spec.restartPolicy: Unsupported value: "A": supported values: "Always", "OnFailure", "Never"`,
			`spec.dnsPolicy: Unsupported value: "B": supported values: "ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"`,
			"spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive"}},
		{"tolerations", pod("tolerations: [{}, {key: k, operator: Near}, {key: k, tolerationSeconds: 1}, {key: k, " +
			"operator: Exists}]"), "",
			[]string{
				"spec.tolerations[0].operator: Invalid value: \"\": operator must be Exists when `key` is empty, which means " +
					"\"match all values and all keys\"",
				`spec.tolerations[1].operator: Unsupported value: "Near": supported values: "Equal", "Exists"`,
				"spec.tolerations[2].effect: Invalid value: \"\": effect must be 'NoExecute' when `tolerationSeconds` is set"}},
		{"bound and gated", pod("nodeName: n, schedulingGates: [{name: g}]"), "",
			[]string{"spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared"}},
	})
}

func TestValidatePodUpdate(t *testing.T) {
	pod := func(image, fields string) string {
		return "spec: {containers: [{name: c, image: '" + image + "'}], " + fields + "}"
	}
	const other = "spec: Forbidden: pod updates may not change fields other than " +
		"`spec.containers[*].image`,`spec.initContainers[*].image`," +
		"`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing " +
		"tolerations),`spec.terminationGracePeriodSeconds` " +
		"(allow it to be set to 1 if it was previously negative)"
	const one, two = "tolerations: [{key: a, operator: Exists, effect: NoExecute}]",
		"tolerations: [{key: a, operator: Exists, effect: NoExecute, tolerationSeconds: 1}, {key: b, operator: Exists}]"
	affinity := func(more string) string {
		return "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: " +
			"[{key: a, operator: Exists}" + more + "]}]}}}"
	}
	check(t, builtin.DefaultPod, builtin.ValidatePod, []validation{
		{"image", pod("a:2", ""), pod("a:1", ""), nil},
		{"no image", pod("", ""), pod("a:1", ""), []string{
			"spec.containers[0].image: Required value", "spec.containers[0].image: Required value"}}, // said twice
		{"policy", pod("a:1", "restartPolicy: Never"), pod("a:1", ""), []string{other}},
		{"more containers", "spec: {containers: [{name: c, image: i}, {name: d, image: i}]}", pod("i", ""),
			[]string{"spec.containers: Forbidden: pod updates may not add or remove containers"}},
		{"more tolerations", pod("i", two), pod("i", one), nil},
		{"less tolerations", pod("i", one), pod("i", two),
			[]string{"spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds"}},
		{"a deadline", pod("i", "activeDeadlineSeconds: 5"), pod("i", ""), nil},
		{"a later deadline", pod("i", "activeDeadlineSeconds: 5"), pod("i", "activeDeadlineSeconds: 4"),
			[]string{"spec.activeDeadlineSeconds: Invalid value: 5: must be less than or equal to previous value"}},
		{"no deadline", pod("i", ""), pod("i", "activeDeadlineSeconds: 4"),
			[]string{"spec.activeDeadlineSeconds: Invalid value: null: must not update from a positive integer to nil value"}},
		{"grace", pod("i", "terminationGracePeriodSeconds: 1"), pod("i", "terminationGracePeriodSeconds: -1"), nil},
		{"other grace", pod("i", "terminationGracePeriodSeconds: 1"), pod("i", "terminationGracePeriodSeconds: 2"),
			[]string{other}},
		{"a gate less", pod("i", "nodeSelector: {a: b, c: d}"), pod("i", "schedulingGates: [{name: g}], nodeSelector: "+
			"{a: b}"), nil},
		{"a gate more", pod("i", "schedulingGates: [{name: g}]"), pod("i", ""),
			[]string{"spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new scheduling gate 'g'"}},
		{"a wider selector", pod("i", "schedulingGates: [{name: g}]"), pod("i", "schedulingGates: [{name: g}], "+
			"nodeSelector: {a: b}"),
			[]string{"spec.nodeSelector: Invalid value: null: only additions to spec.nodeSelector are allowed (no mutations or deletions)"}},
		{"a narrower affinity", pod("i", affinity(", {key: c, operator: Exists}")), pod("i", "schedulingGates: [{name: g}], "+affinity("")), nil},
		{"a wider affinity", pod("i", "schedulingGates: [{name: g}]"), pod("i", "schedulingGates: [{name: g}], "+affinity("")),
			[]string{"spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms: Invalid value: " +
				"null: no additions/deletions to non-empty NodeSelectorTerms list are allowed"}},
	})
	check(t, builtin.DefaultPod, builtin.ValidatePodStatus, []validation{
		{"class", "status: {qosClass: Burstable}", "status: {qosClass: BestEffort}",
			[]string{`status.qosClass: Invalid value: "Burstable": field is immutable`}},
		{"restart", "status: {containerStatuses: [{name: c, state: {running: {}}}]}",
			"{spec: {restartPolicy: Never}, status: {containerStatuses: [{name: c, state: {terminated: {exitCode: 1}}}]}}",
			[]string{"status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state"}},
		{"restart on failure", "status: {containerStatuses: [{name: c, state: {running: {}}}]}",
			"{spec: {restartPolicy: OnFailure}, status: {containerStatuses: [{name: c, state: {terminated: {exitCode: 1}}}]}}", nil},
	})
}

func TestValidateConfig(t *testing.T) {
	const frozen = "field is immutable when `immutable` is set"
	check(t, builtin.DefaultConfigMap, builtin.ValidateConfigMap, []validation{
		{"keys", "{data: {a b: c, d: e}, binaryData: {d: QQ==}}", "", []string{
			`data[a b]: Invalid value: "a b": a valid config key must consist of alphanumeric characters, '-', '_' or '.' ` +
				`(e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')`,
			`data[d]: Invalid value: "d": duplicate of key present in binaryData`}},
		{"thawed", "{data: {a: c}}", "{immutable: true, data: {a: b}}",
			[]string{"immutable: Forbidden: " + frozen, "data: Forbidden: " + frozen}},
		{"freezing", "{immutable: true, data: {a: c}}", "{data: {a: b}}", nil},
		{"too big", "data: {a: " + strings.Repeat("x", 1<<20+1) + "}", "",
			[]string{"[]: Too long: may not be more than 1048576 bytes"}},
	})
	check(t, builtin.DefaultSecret, builtin.ValidateSecret, []validation{
		{"valid", "data: {a: QQ==}", "", nil},
		{"types", "type: kubernetes.io/tls", "", []string{"data[tls.crt]: Required value", "data[tls.key]: Required value"}},
		{"another type", "type: example.com/a", "type: example.com/b",
			[]string{`type: Invalid value: "example.com/a": field is immutable`}},
		{"frozen", "{immutable: true, data: {a: Qg==}}", "{immutable: true, data: {a: QQ==}}",
			[]string{"data: Forbidden: " + frozen}},
	})
}

func TestValidateService(t *testing.T) {
	check(t, builtin.DefaultService, builtin.ValidateService, []validation{
		{"valid", "spec: {clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1], ports: [{port: 80}]}", "", nil},
		{"no ports", "spec: {}", "", []string{"spec.ports: Required value"}},
		{"headless", "spec: {clusterIP: None, clusterIPs: [None]}", "", nil},
		{"outside", "spec: {type: ExternalName}", "", []string{"spec.externalName: Required value"}},
		{"ports", "spec: {ports: [{port: 0}, {name: a, port: 80}, {name: a, port: 80, targetPort: '-'}]}", "", []string{
			"spec.ports[0].name: Required value",
			"spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
			"spec.ports[0].targetPort: Invalid value: 0: must be between 1 and 65535, inclusive",
			`spec.ports[2].name: Duplicate value: "a"`,
			`spec.ports[2].targetPort: Invalid value: "-": must contain at least one letter (a-z)`,
			`spec.ports[2].targetPort: Invalid value: "-": must not begin or end with a hyphen`,
			`spec.ports[2]: Duplicate value: {"Name":"","Protocol":"TCP","AppProtocol":null,"Port":80,"TargetPort":0,"NodePort":0}`}},
		{"moved", "spec: {clusterIP: 10.0.0.2, clusterIPs: [10.0.0.2], ports: [{port: 80}]}",
			"spec: {clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1], ports: [{port: 80}]}",
			[]string{`spec.clusterIPs[0]: Invalid value: ["10.0.0.2"]: may not change once set`}},
		{"two addresses", "spec: {clusterIP: 10.0.0.1, clusterIPs: [10.0.0.2], ports: [{port: 80}]}", "",
			[]string{"spec.clusterIPs: Invalid value: [\"10.0.0.2\"]: first value must match `clusterIP`"}},
	})
}

func TestValidatePersistentVolumeClaim(t *testing.T) {
	claim := func(size, fields string) string {
		return "{spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: " + size + "}}, " + fields + "}, " +
			"status: {phase: Bound, capacity: {storage: 2Gi}}}"
	}
	const immutable = "spec: Forbidden: spec is immutable after creation except resources.requests and " +
		"volumeAttributesClassName for bound claims"
	check(t, builtin.DefaultPersistentVolumeClaim, builtin.ValidatePersistentVolumeClaim, []validation{
		{"valid", claim("1Gi", ""), "", nil},
		{"empty", "spec: {accessModes: [ReadWriteOncePod, ReadSometimes], volumeMode: Tape}", "", []string{
			`spec.accessModes: Unsupported value: "ReadSometimes": supported values: "ReadOnlyMany", "ReadWriteMany", ` +
				`"ReadWriteOnce", "ReadWriteOncePod"`,
			"spec.resources[storage]: Required value",
			`spec.volumeMode: Unsupported value: "Tape": supported values: "Block", "Filesystem"`}},
		{"grown", claim("4Gi", "volumeName: v"), claim("2Gi", "volumeName: v"), nil},
		{"shrunk", claim("1Gi", ""), claim("2Gi", ""),
			[]string{"spec.resources.requests.storage: Forbidden: field can not be less than status.capacity"}},
		{"taken back", claim("3Gi", ""), claim("4Gi", ""), nil},
		{"bound", claim("2Gi", "volumeName: v"), claim("2Gi", ""), nil},
		{"bound again", claim("2Gi", "volumeName: w"), claim("2Gi", "volumeName: v"), []string{immutable}},
		{"another class", claim("2Gi", "storageClassName: b"), claim("2Gi", "storageClassName: a"), []string{immutable}},
		{"grown unbound", strings.Replace(claim("4Gi", ""), "Bound", "Pending", 1), claim("2Gi", ""), []string{immutable}},
	})
}

func TestValidateOthers(t *testing.T) {
	check(t, func(*coordinationv1.Lease, string) {}, builtin.ValidateLease, []validation{
		{"valid", "spec: {leaseDurationSeconds: 1, leaseTransitions: 0}", "", nil},
		{"numbers", "spec: {leaseDurationSeconds: 0, leaseTransitions: -1}", "", []string{
			"spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
			"spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0"}},
	})
	check(t, func(*corev1.Event, string) {}, builtin.ValidateEvent, []validation{
		{"valid", "{metadata: {namespace: a}, involvedObject: {namespace: a}}", "", nil},
		{"elsewhere", "{metadata: {namespace: a}, involvedObject: {namespace: b}}", "",
			[]string{`involvedObject.namespace: Invalid value: "b": does not match event.namespace`}},
		{"about a node", "metadata: {namespace: default}", "", nil},
		{"about a node, elsewhere", "metadata: {namespace: a}", "",
			[]string{`involvedObject.namespace: Invalid value: "": does not match event.namespace`}},
	})
	check(t, builtin.DefaultNamespace, builtin.ValidateNamespaceStatus, []validation{
		{"active", "status: {phase: Active}", "{}", nil},
		{"too early", "status: {phase: Terminating}", "{}",
			[]string{"status.Phase: Invalid value: \"Terminating\": may only be 'Active' if `deletionTimestamp` is empty"}},
	})
	check(t, builtin.DefaultNode, builtin.ValidateNode, []validation{
		{"taints", "spec: {taints: [{key: a, effect: NoSchedule}, {key: a, effect: NoSchedule}, {key: b, effect: Stay}]}", "",
			[]string{
				`metadata.taints[1]: Duplicate value: {"Key":"a","Value":"","Effect":"NoSchedule","TimeAdded":null}: ` +
					`taints must be unique by key and effect pair`,
				`metadata.taints[2].effect: Unsupported value: "Stay": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"`}},
		{"identity", "spec: {providerID: b}", "spec: {providerID: a}",
			[]string{`spec.providerID: Forbidden: node updates may not change providerID except from "" to valid`}},
	})
	check(t, builtin.DefaultControllerRevision, builtin.ValidateControllerRevision, []validation{
		{"valid", "{revision: 2, data: {a: 1}}", "{revision: 1, data: {a: 1}}", nil},
		{"empty", "revision: -1", "", []string{
			"revision: Invalid value: -1: must be greater than or equal to 0", "data: Required value: data is mandatory"}},
		{"changed", "{revision: 1, data: {a: 2}}", "{revision: 1, data: {a: 1}}",
			[]string{`data: Invalid value: {"a":2}: field is immutable`}},
	})
}

func TestValidateMetadata(t *testing.T) {
	root := metav1.ObjectMeta{Name: "a", Namespace: "n", ResourceVersion: "1", UID: "u"}
	with := func(f func(*metav1.ObjectMeta)) *metav1.ObjectMeta { m := root.DeepCopy(); f(m); return m }
	owned := with(func(m *metav1.ObjectMeta) {
		owner := metav1.OwnerReference{APIVersion: "v1", Kind: "A", Name: "x", UID: "1", Controller: new(true)}
		m.OwnerReferences = []metav1.OwnerReference{owner, {APIVersion: "v1", Kind: "B", Name: "y", UID: "2", Controller: new(true)}}
	})
	renamed := with(func(m *metav1.ObjectMeta) { m.UID = "other" })
	labelled := with(func(m *metav1.ObjectMeta) { m.Labels = map[string]string{"a b": ""} })
	tests := []struct {
		name    string
		object  *metav1.ObjectMeta
		update  bool
		custom  bool
		version string
		want    int // how often the error is told
		text    string
	}{
		{"two controllers", owned, false, false, "1.36", 1,
			`Only one reference can have Controller set to true. Found "true" in references for A/x and B/y`},
		{"uid in 1.36", renamed, true, false, "1.36", 2, `metadata.uid: Invalid value: "other": field is immutable`},
		{"uid in 1.37", renamed, true, false, "1.37", 1, `metadata.uid: Invalid value: "other": field is immutable`},
		{"uid of a custom resource in 1.37", renamed, true, true, "1.37", 2, `metadata.uid: Invalid value: "other": ` +
			`field is immutable`},
		{"labels in 1.36", labelled, true, false, "1.36", 3, `metadata.labels: Invalid value: "a b"`},
		{"labels in 1.37", labelled, true, false, "1.37", 1, `metadata.labels: Invalid value: "a b"`},
		{"nothing", &root, true, false, "1.36", 0, ""},
	}
	for _, test := range tests {
		var old metav1.Object
		if test.update {
			old = &root
		}
		rules := builtin.MetadataRules{Namespaced: true, Name: builtin.ValidName("Pod"), Custom: test.custom, Checks: builtin.CustomChecks}
		errs := builtin.ValidateMetadata(test.object, old, rules, test.version)
		if len(errs) != test.want {
			t.Errorf("%s: %d errors, want %d: %v", test.name, len(errs), test.want, errs)
		}
		for _, err := range errs {
			if !strings.Contains(err.Error(), test.text) {
				t.Errorf("%s: %v", test.name, err)
			}
		}
	}
	for kind, names := range map[string]struct{ good, bad string }{
		"Pod": {"a.b", "a_b"}, "StatefulSet": {"a", "a.b"}, "Service": {"1a", "a.b"}, "Namespace": {"1a", "a.b"},
	} {
		if len(builtin.ValidName(kind)(names.good, false)) > 0 || len(builtin.ValidName(kind)(names.bad, false)) == 0 {
			t.Errorf("names of %s", kind)
		}
	}
}

func BenchmarkStatefulSet(b *testing.B) {
	set := parse[appsv1.StatefulSet](b, "spec: {"+selected+", "+template+"}")
	builtin.DefaultStatefulSet(set, "1.36")
	var old runtime.Object = set.DeepCopy()
	stored := old.(*appsv1.StatefulSet)
	b.Run("default", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			builtin.DefaultStatefulSet(set, "1.36")
		}
	})
	b.Run("validate/create", func(b *testing.B) {
		for b.Loop() {
			builtin.ValidateStatefulSet(set, nil, "1.36")
		}
	})
	b.Run("validate/same", func(b *testing.B) {
		for b.Loop() {
			builtin.ValidateStatefulSet(set, stored, "1.36")
		}
	})
	b.Run("validate/status", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			builtin.ValidateStatefulSetStatus(set, stored, "1.36")
		}
	})
}
