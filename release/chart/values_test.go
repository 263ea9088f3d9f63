package chart_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"

	"github.com/limpet-io/limpet/release/chart"
)

const (
	agent      = "daemonset_limpet-system_limpet-agent"
	controller = "deployment_limpet-system_limpet-controller"
	helmTest   = "rebuild" // the file of `helm test`
)

// TestValuesReachTheObjects looks for what each value changes.
func TestValuesReachTheObjects(t *testing.T) {
	cases := []struct{ values, object, want string }{
		{"image: {registry: r.example/x}", agent, "image: \"r.example/x/limpet-agent:dev\""},
		{"image: {registry: r.example/x, tag: v9}", controller, "image: \"r.example/x/limpet-controller:v9\""},
		{"agent: {image: \"a@sha256:0\"}", agent, "image: \"a@sha256:0\""},
		{"controller: {image: \"c@sha256:0\"}", controller, "image: \"c@sha256:0\""},
		{"image: {pullPolicy: Always}", agent, "imagePullPolicy: Always"},
		{"image: {pullPolicy: Never}", controller, "imagePullPolicy: Never"},
		{"image: {pullSecrets: [{name: reg}]}", agent, "imagePullSecrets:\n      - name: reg\n"},
		{"image: {pullSecrets: [{name: reg}]}", controller, "imagePullSecrets:\n      - name: reg\n"},
		{"agent: {extraArgs: [--v=1]}", agent, "- \"--v=1\"\n"},
		{"agent: {resources: {requests: {cpu: 200m}}}", agent, "cpu: 200m"},
		{"agent: {goMemoryLimit: 96MiB}", agent, "value: \"96MiB\""},
		{"agent: {nodeSelector: {pool: a}}", agent, "nodeSelector:\n        pool: a\n"},
		{"agent: {pluginDirectory: /usr/libexec/cni}", agent, "path: \"/usr/libexec/cni\"\n"},
		{"agent: {configDirectory: /etc/k/net.d}", agent, "path: \"/etc/k/net.d\"\n"},
		{"controller: {replicas: 3}", controller, "replicas: 3\n"},
		{"controller: {extraArgs: [--client-ca=/c/ca.crt]}", controller, "- \"--client-ca=/c/ca.crt\"\n"},
		{"controller: {resources: {limits: {memory: 2Gi}}}", controller, "memory: 2Gi"},
		{"controller: {goMemoryLimit: 1600MiB}", controller, "value: \"1600MiB\""},
		{"controller: {nodeSelector: {pool: a}}", controller, "nodeSelector:\n        pool: a\n"},
		{"controller: {extraVolumes: [{name: ca, secret: {secretName: x}}]}", controller, "volumes:\n      - name: ca\n        secret:\n          secretName: x\n"},
		{"controller: {extraVolumeMounts: [{name: ca, mountPath: /c}]}", controller, "volumeMounts:\n        - mountPath: /c\n          name: ca\n"},
		{
			"networkPolicy: {enabled: true, apiServers: [10.0.0.0/28, \"fd00::/64\"]}", "networkpolicy_limpet-system_limpet-controller",
			"- ipBlock:\n        cidr: \"10.0.0.0/28\"\n    - ipBlock:\n        cidr: \"fd00::/64\"\n",
		},
		{
			"networkPolicy: {enabled: true, apiServers: [10.0.0.0/28], prometheusNamespace: obs}", "networkpolicy_limpet-system_limpet-controller",
			"kubernetes.io/metadata.name: \"obs\"\n",
		},
		{"agent: {podAnnotations: {a/b: c}}", agent, "    metadata:\n      annotations:\n        a/b: c\n"},
		{"controller: {podAnnotations: {a/b: c}}", controller, "    metadata:\n      annotations:\n        a/b: c\n"},
		{"", agent, "tolerations:\n      - operator: Exists\n"},
		{"agent: {tolerations: [{key: pool}]}", agent, "tolerations:\n      - key: pool\n"},
		{"controller: {tolerations: [{key: pool}]}", controller, "tolerations:\n      - key: pool\n"},
		{"agent: {affinity: {nodeAffinity: {}}}", agent, "affinity:\n        nodeAffinity: {}\n"},
		{"controller: {affinity: {nodeAffinity: {}}}", controller, "affinity:\n        nodeAffinity: {}\n      containers:\n"},
		{"agent: {priorityClassName: high}", agent, "priorityClassName: \"high\"\n"},
		{"controller: {priorityClassName: high}", controller, "priorityClassName: \"high\"\n"},
		{"commonLabels: {team: net}", agent, "      labels:\n        team: net\n"},
		{"commonLabels: {team: net}", controller, "  labels:\n    team: net\n"},
		{"commonLabels: {team: net}", "clusterrolebinding_limpet-controller", "  labels:\n    team: net\n"},
		{"alerts: {enabled: true, labels: {release: prometheus}}", "prometheusrule_limpet-system_limpet-controller", "    release: prometheus\n"},
	}
	for _, tc := range cases {
		t.Run(tc.values, func(t *testing.T) {
			got := template(t, tc.values)[tc.object]
			if !strings.Contains(got, tc.want) {
				t.Errorf("want %q in\n%s", tc.want, got)
			}
			parse(t, got)
		})
	}
}

// TestTheLineForK3s renders what the page of the installation sets for k3s.
func TestTheLineForK3s(t *testing.T) {
	page, err := os.ReadFile("../../docs/operate/install.md")
	if err != nil {
		t.Fatal(err)
	}
	values := ""
	for _, m := range regexp.MustCompile(`--set agent\.(\w+)=(/var/lib/rancher/\S+)`).FindAllStringSubmatch(string(page), -1) {
		values += m[1] + ": " + m[2] + ", "
	}
	got := template(t, "agent: {"+values+"}")[agent]
	for _, want := range []string{`path: "/var/lib/rancher/k3s/data/cni"`, `path: "/var/lib/rancher/k3s/agent/etc/cni/net.d"`} {
		if !strings.Contains(got, want) {
			t.Errorf("want %s in\n%s", want, got)
		}
	}
}

// TestWrongValuesAreRefused checks that the message names the value and what is allowed.
func TestWrongValuesAreRefused(t *testing.T) {
	cases := []struct{ values, kubernetes, want string }{
		{"replicas: 3", "v1.37.0", "additional properties 'replicas' not allowed"},
		{"controller: {replica: 3}", "v1.37.0", "additional properties 'replica' not allowed"},
		{"controller: {replicas: 0}", "v1.37.0", "at '/controller/replicas': minimum"},
		{"controller: {goMemoryLimit: 400Mi}", "v1.37.0", "at '/controller/goMemoryLimit': '400Mi' does not match"},
		{"agent: {extraArgs: v=1}", "v1.37.0", "at '/agent/extraArgs': got string, want array"},
		{"agent: {extraArgs: [v=1]}", "v1.37.0", "at '/agent/extraArgs/0': 'v=1' does not match"},
		{"agent: {pluginDirectory: opt/cni}", "v1.37.0", "at '/agent/pluginDirectory': 'opt/cni' does not match"},
		{"agent: {resources: {limit: {}}}", "v1.37.0", "additional properties 'limit' not allowed"},
		{"pods: {source: crio}", "v1.37.0", "at '/pods/source': value must be one of 'api', 'kubelet', 'runtime'"},
		{"certificate: {source: certmanager}", "v1.37.0", "at '/certificate/source': value must be one of 'self', 'given', 'cert-manager'"},
		{"network: {mode: mine}", "v1.37.0", "at '/network/mode': value must be one of 'none', 'own', 'adopt'"},
		{"alerts: {enabled: \"yes\"}", "v1.37.0", "at '/alerts/enabled': got string, want boolean"},
		{"image: {pullPolicy: always}", "v1.37.0", "at '/image/pullPolicy': value must be one of"},
		{"image: {registry: r.example/}", "v1.37.0", "at '/image/registry': 'r.example/' does not match"},
		{"networkPolicy: {enabled: true}", "v1.37.0", "at '/networkPolicy/apiServers': minItems: got 0, want 1"},
		{"networkPolicy: {enabled: true, apiServers: [10.0.0.1]}", "v1.37.0", "at '/networkPolicy/apiServers/0': '10.0.0.1' does not match"},
		{"mutatingPolicy: {enabled: true}", "v1.35.0", "mutatingPolicy.enabled needs Kubernetes 1.36 or later: this cluster has v1.35.0"},
		{"network: {mode: own, settings: true}", "v1.30.4", "network.settings needs Kubernetes 1.31 or later: this cluster has v1.30.4"},
		{"network: {settings: true}", "v1.37.0", "network.settings needs network.mode=own"},
		{"commonLabels: {app.kubernetes.io/name: x}", "v1.37.0", "invalid propertyName 'app.kubernetes.io/name'"},
		{"agent: {podAnnotations: {a: 1}}", "v1.37.0", "at '/agent/podAnnotations/a': got number, want string"},
		{"pods: {source: kubelet}", "v1.36.2", "pods.source=kubelet needs Kubernetes 1.37 or later: this cluster has v1.36.2"},
	}
	for _, tc := range cases {
		t.Run(tc.values, func(t *testing.T) {
			if _, err := helm(t, files(t), "default", tc.kubernetes, tc.values); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}

// TestReleaseInItsOwnNamespace renders no namespace, which must be there before the release.
func TestReleaseInItsOwnNamespace(t *testing.T) {
	byID, err := helm(t, files(t), "limpet-system", "v1.37.0", "")
	if err != nil {
		t.Fatal(err)
	}
	want := kustomized(t, "default")
	delete(want, "namespace_limpet-system")
	same(t, want, byID)
}

// TestEveryValueIsExplained looks for a comment at each line of values.yaml, and for a description of each
// property in the schema.
func TestEveryValueIsExplained(t *testing.T) {
	explained, keys := false, 0
	for l := range strings.Lines(files(t)["values.yaml"]) {
		l = strings.TrimSpace(l)
		inner := strings.HasPrefix(l, "requests:") || strings.HasPrefix(l, "limits:")
		if l != "" && !strings.HasPrefix(l, "#") && !inner {
			keys++
			if !explained && !strings.Contains(l, " # ") {
				t.Errorf("no comment explains %q", l)
			}
		}
		explained = strings.HasPrefix(l, "#")
	}
	if keys < 30 {
		t.Errorf("found %d values: the test tests little", keys)
	}
}

// TestObjectsNameTheRelease looks for the labels by which tools find what a release installed.
func TestObjectsNameTheRelease(t *testing.T) {
	for id, text := range template(t, everything) {
		metadata, _ := parse(t, text)["metadata"].(map[string]any)
		labels, _ := metadata["labels"].(map[string]any)
		for key, want := range map[string]any{
			"app.kubernetes.io/part-of": "limpet", "app.kubernetes.io/instance": "limpet", "app.kubernetes.io/version": "dev", "app.kubernetes.io/managed-by": "Helm",
		} {
			if labels[key] != want {
				t.Errorf("%s: %s is %v, want %v", id, key, labels[key], want)
			}
		}
	}
}

// TestHelmTestRunsTheCheck looks for the hooks of `helm test`, in the order in which they are made. Rights never stay.
func TestHelmTestRunsTheCheck(t *testing.T) {
	var kinds []string
	for text := range strings.SplitSeq(template(t, "image: {registry: r.example/x}")[helmTest], "\n---\n") {
		o := parse(t, text)
		kinds = append(kinds, fmt.Sprint(o["kind"]))
		annotations, _ := o["metadata"].(map[string]any)["annotations"].(map[string]any)
		policy := fmt.Sprint(annotations["helm.sh/hook-delete-policy"])
		if annotations["helm.sh/hook"] != "test" || o["kind"] != "Pod" && !strings.Contains(policy, "hook-succeeded,hook-failed") {
			t.Errorf("%s has the annotations %v", o["kind"], annotations)
		}
		if o["kind"] == "Pod" && !strings.Contains(text, "image: \"r.example/x/limpet-controller:dev\"\n      imagePullPolicy: IfNotPresent\n      command: [/kubectl-limpet, test,") {
			t.Errorf("another image or command:\n%s", text)
		}
	}
	if got := strings.Join(kinds, " "); got != "ServiceAccount ClusterRole ClusterRoleBinding Pod" {
		t.Errorf("the hooks are %s", got)
	}
}

// TestReadmeHasEveryValue looks for each leaf of values.yaml in the table that is made from the schema.
func TestReadmeHasEveryValue(t *testing.T) {
	readme, rows := files(t)["README.md"], 0
	var look func(path string, value any)
	look = func(path string, value any) {
		if inner, ok := value.(map[string]any); ok && len(inner) > 0 && !strings.HasSuffix(path, ".resources") {
			for key, v := range inner {
				look(path+"."+key, v)
			}
			return
		}
		rows++
		if !strings.Contains(readme, "| `"+path[1:]+"` | ") {
			t.Errorf("the README has no row of %s", path[1:])
		}
	}
	look("", parse(t, files(t)["values.yaml"]))
	if rows < 40 || strings.Contains(readme, "|  |") {
		t.Errorf("%d values, or one without a description:\n%s", rows, readme)
	}
}

// TestLint runs Helm's own checks, and takes warnings for errors as --strict does.
func TestLint(t *testing.T) {
	for name, values := range map[string]string{
		"default": "",
		"all": "network: {mode: own}\npods: {source: runtime}\ncertificate: {source: cert-manager}\nbreakGlass: {enabled: true}\n" +
			"networkPolicy: {enabled: true, apiServers: [10.0.0.0/28]}\nalerts: {enabled: true}",
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir() + "/" + chart.Name
			if err := chart.Write(dir, files(t)); err != nil {
				t.Fatal(err)
			}
			for _, m := range lint.RunAll(dir, parse(t, values), "default").Messages {
				if m.Severity > support.InfoSev {
					t.Error(fmt.Errorf("%s: %w", m.Path, m.Err))
				}
			}
		})
	}
}
