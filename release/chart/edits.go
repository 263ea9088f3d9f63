package chart

import (
	"fmt"
	"strings"
)

// edit replaces lines of an object by template text, so that a value decides what stands there.
type edit struct {
	kind string
	// name is empty for all objects of the kind.
	name string
	// find is consecutive lines, which must occur exactly once. A line that begins with spaces has exactly
	// this indentation.
	find []string
	// text has the lines found in place of %s, if it names it, and is indented like the first of them.
	text string
}

const (
	agent      = "limpet-agent"
	controller = "limpet-controller"
)

var edits = []edit{
	// Objects of CRDs are deleted with their CRD, so that no uninstall may delete one.
	{"CustomResourceDefinition", "", []string{"  annotations:"}, "%s\n  helm.sh/resource-policy: keep"},
	{"Namespace", "", []string{"app.kubernetes.io/part-of: limpet"}, "{{- /* limpet.labels has it */}}"},
	{"PrometheusRule", "", []string{"  labels:"}, "%s\n{{- with .Values.alerts.labels }}\n{{- toYaml . | nindent 4 }}\n{{- end }}"},
	{"PodMonitor", "", []string{"  labels:"}, "%s\n{{- with .Values.alerts.labels }}\n{{- toYaml . | nindent 4 }}\n{{- end }}"},
	{
		"NetworkPolicy", controller,
		[]string{"- ipBlock:", "cidr: the-network-of-the-API-servers"},
		"{{- range .Values.networkPolicy.apiServers }}\n- ipBlock:\n    cidr: {{ . | quote }}\n{{- end }}",
	},
	{
		"NetworkPolicy", controller,
		[]string{"kubernetes.io/metadata.name: monitoring"},
		"kubernetes.io/metadata.name: {{ .Values.networkPolicy.prometheusNamespace | quote }}",
	},

	{"Deployment", controller, []string{"replicas: 2"}, "replicas: {{ .Values.controller.replicas }}"},
	{"Deployment", controller, []string{"image: limpet-io/limpet-controller:dev"}, `image: {{ include "limpet.image" (list . "controller") | quote }}`},
	{"Deployment", controller, []string{"- --namespace=$(POD_NAMESPACE)"}, "%s" + moreArgs("controller")},
	{"Deployment", controller, []string{"value: 400MiB"}, "value: {{ .Values.controller.goMemoryLimit | quote }}"},
	{"Deployment", controller, []string{"    spec:"}, "%s" + podFields("controller")},
	{"Deployment", controller, []string{"    metadata:"}, "%s" + podAnnotations("controller")},
	{"Deployment", controller, []string{"      affinity:"}, "{{- with .Values.controller.affinity }}\naffinity:\n{{- toYaml . | nindent 8 }}\n{{- else }}\n%s"},
	{"Deployment", controller, []string{"      containers:"}, "{{- end }}\n%s"}, // of the line before
	{
		"Deployment", controller,
		[]string{
			"tolerations:", "- effect: NoExecute", "key: node.kubernetes.io/not-ready", "operator: Exists", "tolerationSeconds: 30",
			"- effect: NoExecute", "key: node.kubernetes.io/unreachable", "operator: Exists", "tolerationSeconds: 30",
		},
		tolerations("controller"),
	},
	{"Deployment", controller, []string{"priorityClassName: system-cluster-critical"}, "priorityClassName: {{ .Values.controller.priorityClassName | quote }}"},
	{"Deployment", controller, []string{"volumeMounts:"}, "%s" + more("controller", "extraVolumeMounts", 8)},
	{"Deployment", controller, []string{"volumes:"}, "%s" + more("controller", "extraVolumes", 6)},
	{"DaemonSet", agent, []string{"image: limpet-io/limpet-agent:dev"}, `image: {{ include "limpet.image" (list . "agent") | quote }}`},
	{"DaemonSet", agent, []string{"- --boot-id-file=/host/boot_id"}, "%s" + moreArgs("agent")},
	{"DaemonSet", agent, []string{"value: 48MiB"}, "value: {{ .Values.agent.goMemoryLimit | quote }}"},
	{"DaemonSet", agent, []string{"    spec:"}, "%s\n  {{- with .Values.agent.affinity }}\n  affinity:\n  {{- toYaml . | nindent 8 }}\n  {{- end }}" + podFields("agent")},
	{"DaemonSet", agent, []string{"    metadata:"}, "%s" + podAnnotations("agent")},
	{"DaemonSet", agent, []string{"tolerations:", "- operator: Exists"}, tolerations("agent")},
	{"DaemonSet", agent, []string{"priorityClassName: system-node-critical"}, "priorityClassName: {{ .Values.agent.priorityClassName | quote }}"},
	{"DaemonSet", agent, []string{"path: /opt/cni/bin"}, "path: {{ .Values.agent.pluginDirectory | quote }}"},
	{"DaemonSet", agent, []string{"path: /etc/cni/net.d"}, "path: {{ .Values.agent.configDirectory | quote }}"},

	{"Deployment", controller, []string{"imagePullPolicy: IfNotPresent"}, "imagePullPolicy: {{ .Values.image.pullPolicy }}"},
	{"DaemonSet", agent, []string{"imagePullPolicy: IfNotPresent"}, "imagePullPolicy: {{ .Values.image.pullPolicy }}"},
	{"Deployment", controller, []string{"resources:", "limits:", "memory: 512Mi", "requests:", "cpu: 50m", "memory: 64Mi"}, resources("controller")},
	{"DaemonSet", agent, []string{"resources:", "limits:", "memory: 128Mi", "requests:", "cpu: 100m", "memory: 32Mi"}, resources("agent")},
}

func moreArgs(program string) string {
	return "\n{{- range .Values." + program + ".extraArgs }}\n- {{ . | quote }}\n{{- end }}"
}

func podFields(program string) string {
	return "\n  {{- with .Values.image.pullSecrets }}\n  imagePullSecrets:\n  {{- toYaml . | nindent 6 }}\n  {{- end }}" +
		"\n  {{- with .Values." + program + ".nodeSelector }}\n  nodeSelector:\n  {{- toYaml . | nindent 8 }}\n  {{- end }}"
}

func podAnnotations(program string) string {
	return "\n  {{- with .Values." + program + ".podAnnotations }}\n  annotations:\n  {{- toYaml . | nindent 8 }}\n  {{- end }}"
}

func tolerations(program string) string {
	return "tolerations:\n{{- toYaml .Values." + program + ".tolerations | nindent 6 }}"
}

func more(program, value string, indent int) string {
	return fmt.Sprintf("\n{{- with .Values.%s.%s }}\n{{- toYaml . | nindent %d }}\n{{- end }}", program, value, indent)
}

func resources(program string) string {
	return "resources:\n  {{- toYaml .Values." + program + ".resources | nindent 10 }}"
}

func (e edit) concerns(o object) bool { return e.kind == o.kind && (e.name == "" || e.name == o.name) }

// line is a line of a template.
type line struct {
	// text is template text, and base the line of the manifest that it stands for.
	text, base string
	// gone tells that an edit has replaced this line and its neighbours by the text of the first of them.
	gone bool
}

// edited returns the lines of an object as template text.
func edited(o object) ([]line, error) {
	lines := make([]line, len(o.lines))
	for i, l := range o.lines {
		lines[i] = line{text: escape(l), base: l}
	}
	for _, e := range edits {
		if !e.concerns(o) {
			continue
		}
		at, err := e.position(o)
		if err != nil {
			return nil, err
		}
		indent := o.lines[at][:len(o.lines[at])-len(strings.TrimLeft(o.lines[at], " "))]
		text := indent + strings.ReplaceAll(e.text, "\n", "\n"+indent)
		lines[at].text = strings.Replace(text, "%s", strings.TrimSpace(lines[at].text), 1)
		for i := range e.find[1:] {
			lines[at+1+i].gone = true
		}
	}
	label(o, lines)
	return lines, nil
}

// label gives an object, and the pods that it makes, the labels of the release.
func label(o object, lines []line) {
	for i, l := range o.lines {
		indent, _, ok := strings.Cut(l, "metadata:")
		if !ok || l != indent+"metadata:" || strings.TrimSpace(indent) != "" || len(indent) != 0 && len(indent) != 4 {
			continue
		}
		text := fmt.Sprintf("\n%s    {{- include \"limpet.labels\" . | nindent %d }}", indent, len(indent)+4)
		at := i + 1 // of the labels that are there, if any
		for at < len(o.lines) && strings.HasPrefix(o.lines[at], indent+"  ") && o.lines[at] != indent+"  labels:" {
			at++
		}
		if at < len(o.lines) && o.lines[at] == indent+"  labels:" {
			lines[at].text += text
		} else {
			lines[i].text += "\n" + indent + "  labels:" + text
		}
	}
}

// position returns the number of the first line that an edit replaces.
func (e edit) position(o object) (int, error) {
	found := -1
	for i := range o.lines {
		if !e.matches(o.lines[i:]) {
			continue
		}
		if found >= 0 {
			return 0, fmt.Errorf("the lines %q are more than once in %s", e.find, o.id)
		}
		found = i
	}
	if found < 0 {
		return 0, fmt.Errorf("the lines %q are not in %s: change edits.go like the manifest", e.find, o.id)
	}
	return found, nil
}

func (e edit) matches(lines []string) bool {
	if len(lines) < len(e.find) {
		return false
	}
	for i, want := range e.find {
		got := lines[i]
		if !strings.HasPrefix(want, " ") {
			got = strings.TrimLeft(got, " ")
		}
		if got != want {
			return false
		}
	}
	return true
}

// escape returns a line that a template prints as it is.
func escape(l string) string { return strings.ReplaceAll(l, "{{", `{{ "{{" }}`) }
