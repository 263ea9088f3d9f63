package console

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/limpet-io/limpet/internal/console/facts"
)

// mostLog bounds the log of one container, in bytes.
const mostLog = 4 << 20

// Bundle is what a support bundle is made from.
type Bundle struct {
	Reader facts.Reader
	// Log returns the newest lines of the log of a pod of Limpet, or of the run of its container before.
	Log func(ctx context.Context, pod string, previous bool) (io.ReadCloser, error)
	// Version is the version of the program that makes the bundle.
	Version string
	// Told is called with the name of each file.
	Told func(name string)
}

// Write writes an archive (tar, gzip) with what a person needs who looks for a fault: reports,
// the objects of Limpet, its pods with their logs, and its events. It has no Secret, and of other
// pods only name, node, addresses and state. What cannot be read is in the file errors.txt, and is returned.
func (b Bundle) Write(ctx context.Context, w io.Writer) ([]facts.Unread, error) {
	zipped := gzip.NewWriter(w)
	a := archive{tar: tar.NewWriter(zipped), now: b.Reader.Now(), told: b.Told}
	all, err := b.Reader.Read(ctx, "", append(slices.Clone(StatusParts), facts.Pods, facts.Events, facts.DisruptionBudgets)...)
	if err != nil {
		return nil, err
	}
	withoutValues(all)
	a.add("version.txt", []byte(b.Version+"\n"))
	for _, file := range []struct {
		name    string
		content any
	}{
		{"status.yaml", Status(all)},
		{"audit.yaml", Audit(all)},
		{"lost.yaml", Lost(all)},
		{"versions.yaml", Versions(all, b.Version)},
		{"objects/nodes.yaml", shortNodes(all.Nodes)},
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
	for _, pod := range all.Own {
		a.addLog(ctx, b.Log, pod.Name, false)
		if slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool { return c.RestartCount > 0 }) {
			a.addLog(ctx, b.Log, pod.Name, true)
		}
	}
	a.addErrors(all.Unread)
	return all.Unread, errors.Join(a.err, a.tar.Close(), zipped.Close())
}

// archive writes files until one cannot be written.
type archive struct {
	tar    *tar.Writer
	now    time.Time
	told   func(string)
	failed []string // what could not be read
	err    error    // of writing
}

func (a *archive) add(name string, content []byte) {
	if a.err != nil {
		return
	}
	a.told(name)
	header := tar.Header{Name: "limpet-support/" + name, Mode: 0o644, Size: int64(len(content)), ModTime: a.now}
	if a.err = a.tar.WriteHeader(&header); a.err == nil {
		_, a.err = a.tar.Write(content)
	}
	if a.err != nil {
		a.err = fmt.Errorf("write %s into the bundle: %w", name, a.err)
	}
}

func (a *archive) addYAML(name string, content any) {
	data, err := yaml.Marshal(content)
	if err != nil {
		a.failed = append(a.failed, fmt.Sprintf("%s: %v", name, err))
		return
	}
	a.add(name, data)
}

func (a *archive) addLog(ctx context.Context, open func(context.Context, string, bool) (io.ReadCloser, error), pod string, previous bool) {
	name := "logs/" + pod + ".log"
	if previous {
		name = "logs/" + pod + ".previous.log"
	}
	log, err := open(ctx, pod, previous)
	if err == nil {
		var text []byte
		text, err = io.ReadAll(io.LimitReader(log, mostLog))
		err = errors.Join(err, log.Close())
		a.add(name, text)
	}
	if err != nil {
		a.failed = append(a.failed, fmt.Sprintf("%s: %v", name, err))
	}
}

func (a *archive) addErrors(unread []facts.Unread) {
	lines := slices.Clone(a.failed)
	for _, u := range unread {
		lines = append(lines, u.Kind+": "+u.Reason)
	}
	if len(lines) > 0 {
		a.add("errors.txt", []byte(strings.Join(lines, "\n")+"\n"))
	}
}

// plainValues are variables of deploy/ whose values are in a bundle.
var plainValues = []string{"GOMEMLIMIT", "GOGC"}

// withoutValues drops what an operator added to the environment of Limpet's programs, such as a proxy with a password,
// patches of spreads, and annotations that were recorded of users' pods.
func withoutValues(f *facts.Facts) {
	for i := range f.Own {
		f.Own[i].Annotations = nil // the last applied manifest has the values too
		withoutEnvironment(&f.Own[i].Spec)
	}
	if c := f.Controllers; c != nil {
		c.Annotations = nil
		withoutEnvironment(&c.Spec.Template.Spec)
	}
	if a := f.Agents; a != nil {
		a.Annotations = nil
		withoutEnvironment(&a.Spec.Template.Spec)
	}
	for i := range f.Spreads {
		delete(f.Spreads[i].Annotations, corev1.LastAppliedConfigAnnotation)
		for j := range f.Spreads[i].Spec.Subsets {
			if patch := &f.Spreads[i].Spec.Subsets[j].Patch; patch.Raw != nil {
				patch.Raw = []byte(`"left out"`)
			}
		}
	}
	for i := range f.States {
		for name, record := range f.States[i].Status.PodStates {
			for key := range record.Annotations {
				record.Annotations[key] = "left out"
			}
			f.States[i].Status.PodStates[name] = record
		}
	}
}

func withoutEnvironment(spec *corev1.PodSpec) {
	spec.EphemeralContainers = nil // of a person who looked for a fault
	for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
		for i := range c.Env {
			if !slices.Contains(plainValues, c.Env[i].Name) && c.Env[i].Value != "" {
				c.Env[i].Value = "left out"
			}
		}
	}
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

// shortNodes keeps of nodes what a pin reads.
func shortNodes(nodes []corev1.Node) []map[string]any {
	short := make([]map[string]any, 0, len(nodes))
	for i := range nodes {
		n := &nodes[i]
		short = append(short, map[string]any{
			"name": n.Name, "labels": n.Labels, "taints": n.Spec.Taints, "unschedulable": n.Spec.Unschedulable,
			"podCIDRs": n.Spec.PodCIDRs, "conditions": n.Status.Conditions, "info": n.Status.NodeInfo, "allocatable": n.Status.Allocatable,
		})
	}
	return short
}
