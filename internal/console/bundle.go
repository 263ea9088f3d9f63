package console

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/limpet-io/limpet/internal/console/facts"
)

// MostLog bounds one log, in bytes, and logTimeout how long a node is waited for, which may be dead. Of nodesTogether nodes the
// logs are read at a time.
const MostLog, logTimeout, nodesTogether = 4 << 20, 10 * time.Second, 16

// Bundle is what a support bundle is made from.
type Bundle struct {
	Reader facts.Reader
	// Namespace is the one whose objects are read, beside those of Limpet; empty for all.
	Namespace string
	// Log returns the newest lines of the log of a container of Limpet, or of its run before.
	Log func(ctx context.Context, pod, container string, previous bool) (io.ReadCloser, error)
	// PluginLog returns the end of the log of limpet-ipam on a node.
	PluginLog func(ctx context.Context, node string) (io.ReadCloser, error)
	// OnNode returns what a verb of limpet-ipam, list or check, prints on the node of an agent.
	OnNode func(ctx context.Context, agent, verb string) ([]byte, error)
	// Version is the version of the program that makes the bundle.
	Version string
	// Told is called with the name of each file.
	Told func(name string)
}

// Write writes an archive (tar, gzip) for support: reports, the objects of Limpet, its pods with their logs, and its
// events. It has no Secret, and of other pods only name, node, addresses and state. What cannot be read is in the file
// errors.yaml, and is returned.
func (b Bundle) Write(ctx context.Context, w io.Writer) ([]facts.Unread, error) {
	zipped := gzip.NewWriter(w)
	a := archive{tar: tar.NewWriter(zipped), now: b.Reader.Now(), told: b.Told}
	all, err := b.Reader.Read(ctx, b.Namespace, append(slices.Clone(StatusParts), facts.Pods, facts.Events, facts.DisruptionBudgets)...)
	if err != nil {
		return nil, err
	}
	a.add("version.txt", []byte(b.Version+"\n"))
	for _, file := range []struct {
		name    string
		content any
	}{
		{"status.yaml", Status(all)},
		{"audit.yaml", Audit(all)},
		{"lost.yaml", Lost(all)},
		{"versions.yaml", Versions(all, b.Version)},
		{"objects/nodes.yaml", all.Nodes},
		{"objects/pods.yaml", shortPods(all.Pods)},
		{"objects/nodeippools.yaml", all.Pools},
		{"objects/ipreservations.yaml", all.Reservations},
		{"objects/borrowedaddresses.yaml", all.Loans},
		{"objects/persistentpodstates.yaml", all.States},
		{"objects/workloadspreads.yaml", all.Spreads},
		{"objects/podunavailablebudgets.yaml", all.Budgets},
		{"objects/distributedpoddisruptionbudgets.yaml", all.Divided},
		{"objects/poddisruptionbudgets.yaml", all.DisruptionBudgets},
		{"objects/disruptionbooks.yaml", all.Books},
		{"objects/events.yaml", all.Events},
		{"limpet/controller.yaml", all.Controllers},
		{"limpet/agent.yaml", all.Agents},
		{"limpet/mutating-webhooks.yaml", all.Mutating},
		{"limpet/validating-webhooks.yaml", all.Validating},
		{"limpet/pods.yaml", all.Own},
	} {
		a.addYAML(file.name, file.content)
	}
	a.addLogs(all.Own, func(pod *corev1.Pod) []logFile { return b.logs(ctx, pod) })
	a.unread = append(a.unread, all.Unread...)
	if len(a.unread) > 0 {
		a.addYAML("errors.yaml", a.unread)
	}
	return a.unread, errors.Join(ctx.Err(), a.err, a.tar.Close(), zipped.Close())
}

// archive writes files until one cannot be written.
type archive struct {
	tar    *tar.Writer
	now    time.Time
	told   func(string)
	unread []facts.Unread
	err    error // of writing
}

func (a *archive) add(name string, content []byte) {
	if a.err != nil {
		return
	}
	a.told(name)
	content = token.ReplaceAll(content, []byte(hidden))
	header := tar.Header{Name: "limpet-support/" + name, Mode: 0o644, Size: int64(len(content)), ModTime: a.now}
	if a.err = a.tar.WriteHeader(&header); a.err == nil {
		_, a.err = a.tar.Write(content)
	}
	if a.err != nil {
		a.err = fmt.Errorf("write %s into the bundle: %w", name, a.err)
	}
}

func (a *archive) addYAML(name string, content any) {
	var plain any
	data, err := json.Marshal(content)
	if err == nil {
		err = json.Unmarshal(data, &plain)
	}
	if err == nil {
		data, err = yaml.Marshal(withoutValues("", plain))
	}
	if err != nil {
		a.unread = append(a.unread, facts.Unread{Kind: name, Reason: err.Error()})
		return
	}
	a.add(name, data)
}

// logFile is a log, or why it was not read.
type logFile struct {
	name string
	text []byte
	err  error
}

// addLogs adds the logs of all pods as they come.
func (a *archive) addLogs(pods []corev1.Pod, read func(*corev1.Pod) []logFile) {
	slots, done := make(chan struct{}, nodesTogether), make(chan []logFile)
	for i := range pods {
		go func() {
			slots <- struct{}{}
			done <- read(&pods[i])
			<-slots
		}()
	}
	for range pods {
		for _, l := range <-done {
			switch {
			case l.err == nil:
				a.add(l.name, l.text)
			case apierrors.IsBadRequest(l.err): // a container that did not run has no log, nor one that ran long ago
			default:
				a.unread = append(a.unread, facts.Unread{Kind: l.name, Reason: l.err.Error()})
			}
		}
	}
}

// logs returns the log of Limpet's container of a pod, that of its run before if it was restarted, and of an agent that
// of the plugin on its node, and what the plugin says of its state.
func (b Bundle) logs(ctx context.Context, pod *corev1.Pod) (all []logFile) {
	container := facts.ContainerOf(pod.Labels, pod.Spec)
	if container == nil {
		return nil // of a person who looked for a fault
	}
	ctx, cancel := context.WithTimeout(ctx, logTimeout)
	defer cancel()
	add := func(suffix string, log io.ReadCloser, err error) {
		l := logFile{name: "logs/" + pod.Name + suffix, err: err}
		if err == nil {
			l.text, err = io.ReadAll(io.LimitReader(log, MostLog))
			l.err = errors.Join(err, log.Close())
		}
		all = append(all, l)
	}
	log, err := b.Log(ctx, pod.Name, container.Name, false)
	add(".log", log, err)
	if slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool { return c.Name == container.Name && c.RestartCount > 0 }) {
		log, err = b.Log(ctx, pod.Name, container.Name, true)
		add(".previous.log", log, err)
	}
	if pod.Labels[facts.LabelName] == facts.Agent && pod.Spec.NodeName != "" {
		if log, err = b.PluginLog(ctx, pod.Spec.NodeName); !apierrors.IsNotFound(err) { // ipam.logFile may be none
			add(".plugin.log", log, err)
		}
		for _, verb := range []string{"list", "check"} {
			text, err := b.OnNode(ctx, pod.Name, verb)
			all = append(all, logFile{"logs/" + pod.Name + "." + verb + ".txt", text[:min(len(text), MostLog)], err})
		}
	}
	return all
}

// hidden is what a bundle has in place of a value that may be a secret.
const hidden = "left out"

var (
	// plainValues are variables of deploy/ whose values are in a bundle.
	plainValues = []any{"GOMEMLIMIT", "GOGC"}
	// plainContainers are those of deploy/. Of others, which people inject, only name and image are in a bundle.
	plainContainers = []any{"controller", "agent", "uninstall"}
	// plainAnnotations are those of Limpet and OpenKruise.
	plainAnnotations = regexp.MustCompile(`(^|[./])(limpet\.dev|kruise\.io|io\.kubernetes\.cri)/`)
	// token is one as service accounts have it.
	token = regexp.MustCompile(`eyJ[\w-]+\.[\w-]+\.[\w-]+`)
)

// withoutValues returns a part of an object without what users and operators may have put there: annotations, patches,
// environments and containers. The part is the value of a key, or an element of a list that is.
func withoutValues(key string, value any) any {
	switch v := value.(type) {
	case []any:
		for i := range v {
			v[i] = withoutValues(key, v[i])
		}
	case map[string]any:
		switch {
		case key == "patch" || key == "ephemeralContainers":
			return hidden
		case (key == "containers" || key == "initContainers") && !slices.Contains(plainContainers, v["name"]):
			return map[string]any{"name": v["name"], "image": v["image"]}
		case key == "env" && v["value"] != nil && !slices.Contains(plainValues, v["name"]):
			v["value"] = hidden
		}
		for k := range v {
			if v[k] = withoutValues(k, v[k]); key == "annotations" && !plainAnnotations.MatchString(k) {
				v[k] = hidden
			}
		}
	}
	return value
}

// shortPods keeps of pods what tells where they run. Their environment can hold secrets.
func shortPods(pods []corev1.Pod) []map[string]any {
	short := make([]map[string]any, 0, len(pods))
	for i := range pods {
		p := &pods[i]
		short = append(short, map[string]any{
			"namespace": p.Namespace, "name": p.Name, "uid": p.UID, "node": p.Spec.NodeName, "state": PodState(p),
			"ips": p.Status.PodIPs, "created": p.CreationTimestamp, "deleted": p.DeletionTimestamp, "owner": metav1.GetControllerOfNoCopy(p),
			"gates": p.Spec.SchedulingGates, "conditions": p.Status.Conditions,
		})
	}
	return short
}
