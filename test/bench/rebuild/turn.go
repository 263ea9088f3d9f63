package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/limpet-io/limpet/test/bench/answers"
	"github.com/limpet-io/limpet/test/e2e/bed"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// limit bounds how long it may take until a pod is Ready, and until all pods answer.
const limit = 3 * time.Minute

var errOtherIPAM = errors.New("has its addresses from the other IPAM plugin")

// turn is a StatefulSet of one side. Its pods are rebuilt as a scene says, while a client asks them.
type turn struct {
	bed      *bed.Bed
	scene    scene
	side     side
	pods     []string
	lives    lives
	asker    *asker
	services map[string]corev1.Service
	rebuilds []rebuild
}

// rebuild is a pod that is about to be deleted, and how the client knows it.
type rebuild struct {
	pod     string
	uid     types.UID
	answers time.Time        // until then all targets answered
	targets []answers.Target // in the order of ways
}

// run makes the StatefulSet, rebuilds its pods and adds to the figures what that took.
func (t *turn) run(ctx context.Context, f *figures) (err error) {
	if t.side.hostLocal {
		if err := useHostLocal(ctx, t.bed); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, useLimpet(context.WithoutCancel(ctx), t.bed)) }()
	}
	manifest := t.side.manifest(t.pods)
	if _, err := t.bed.KubectlIn(ctx, manifest, "apply", "-n", t.side.namespace, "-f", "-"); err != nil {
		return err
	}
	defer func() {
		_, gone := t.bed.KubectlIn(context.WithoutCancel(ctx), manifest, "delete", "-n", t.side.namespace, "--cascade=foreground", "-f", "-")
		err = errors.Join(err, gone)
	}()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() { cancel(t.lives.follow(ctx, t.bed, t.side.namespace)) }()
	if t.asker, err = startAsker(ctx, cancel, t.bed.Cluster.NodeNetNS("n1"), t.scene.interval); err != nil {
		return err
	}
	defer t.asker.input.Close()
	if err := t.findServices(ctx); err != nil {
		return err
	}
	if err := t.scene.rebuild(ctx, t); err != nil {
		return err
	}
	last, err := t.awaitAnswers(ctx, t.pods)
	if err != nil {
		return err
	}
	return t.judge(ctx, f, last[0].answers)
}

// findServices notes the Services, of which the cluster IP is asked.
func (t *turn) findServices(ctx context.Context) error {
	list, err := t.bed.Client.CoreV1().Services(t.side.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list Services: %w", err)
	}
	t.services = map[string]corev1.Service{}
	for _, s := range list.Items {
		t.services[s.Name] = s
	}
	return nil
}

// prepare waits until pods can be deleted: they answer in all ways, and Limpet has recorded them.
func (t *turn) prepare(ctx context.Context, pods ...string) error {
	all, err := t.awaitAnswers(ctx, pods)
	if err != nil {
		return err
	}
	for _, r := range all {
		if t.side.hostLocal {
			continue
		}
		p, _ := t.lives.current(r.pod)
		if err := t.bed.AwaitRecorded(ctx, t.side.namespace, set, r.pod, p.node); err != nil {
			return err
		}
	}
	t.rebuilds = append(t.rebuilds, all...)
	return nil
}

// awaitAnswers waits until pods are Ready and answer in all ways.
func (t *turn) awaitAnswers(ctx context.Context, pods []string) ([]rebuild, error) {
	var all []rebuild
	var targets []answers.Target
	for _, pod := range pods {
		p, err := t.awaitReady(ctx, pod, "")
		if err != nil {
			return nil, err
		}
		r := rebuild{pod: pod, uid: p.uid}
		for _, w := range ways {
			r.targets = append(r.targets, w.target(t.side, pod, t.services[pod].Spec.ClusterIP, p.ip))
		}
		all, targets = append(all, r), append(targets, r.targets...)
	}
	if err := t.asker.ask(targets); err != nil {
		return nil, err
	}
	var known time.Time // all requests that began before have ended
	err := bed.Await(ctx, limit, "answers", func(context.Context) (bool, string) {
		known = time.Now().Add(-answers.Timeout - answers.Timeout/2)
		silent := t.asker.silent(targets, known)
		return len(silent) == 0, fmt.Sprint(silent)
	})
	for i := range all {
		all[i].answers = known
	}
	return all, err
}

// awaitRebuilt waits until the successors of all deleted pods are Ready.
func (t *turn) awaitRebuilt(ctx context.Context) error {
	for _, r := range t.rebuilds {
		if _, err := t.awaitReady(ctx, r.pod, r.uid); err != nil {
			return err
		}
	}
	return nil
}

// awaitReady waits until a pod of a name is Ready that has another UID than former.
func (t *turn) awaitReady(ctx context.Context, pod string, former types.UID) (p life, err error) {
	err = bed.Await(ctx, limit, pod+" to be Ready", func(context.Context) (bool, string) {
		var ready bool
		p, ready = t.lives.current(pod)
		return ready && p.uid != former, fmt.Sprintf("%+v", p)
	})
	if err == nil && fromHostLocal(t.bed, p) != t.side.hostLocal {
		err = fmt.Errorf("pod %s: %w", pod, errOtherIPAM)
	}
	return p, err
}

// judge adds all rebuilds to the figures. A request to a target counts until the next rebuild of a pod that has it.
func (t *turn) judge(ctx context.Context, f *figures, end time.Time) error {
	failed, err := t.failedSandboxes(ctx)
	if err != nil {
		return err
	}
	until := map[string]time.Time{}
	t.asker.mutex.Lock()
	defer t.asker.mutex.Unlock()
	for _, r := range slices.Backward(t.rebuilds) {
		before, after := t.lives.after(r.pod, r.uid)
		f.add(readyTitle, after.ready.Sub(before.deleted))
		for i, target := range r.targets {
			if until[target.Key].IsZero() {
				until[target.Key] = end
			}
			f.add(ways[i].title, answers.Silence(t.asker.asked[target.Key], before.deleted, after.ready, until[target.Key]))
			until[target.Key] = r.answers
		}
		if before.node == after.node && before.ips == after.ips {
			f.Same++
		}
		if failed[after.uid] {
			f.Retried++
		}
	}
	return nil
}

// failedSandboxes returns the UIDs of pods of which the kubelet failed to create a sandbox.
func (t *turn) failedSandboxes(ctx context.Context) (map[types.UID]bool, error) {
	events, err := t.bed.Client.CoreV1().Events(t.side.namespace).List(ctx, metav1.ListOptions{FieldSelector: "reason=FailedCreatePodSandBox"})
	if err != nil {
		return nil, fmt.Errorf("list events: %w", err)
	}
	failed := map[types.UID]bool{}
	for _, e := range events.Items {
		failed[e.InvolvedObject.UID] = true
	}
	return failed, nil
}
