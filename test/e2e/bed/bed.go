// Package bed is the test bed of the demo, the end-to-end tests and the benchmark of rebuilds:
// a three-node cluster with Limpet, installed by the manifests that users apply.
package bed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/limpet-io/limpet/test/cluster/cluster"
	"github.com/limpet-io/limpet/test/cluster/image"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// System is the namespace of Limpet.
const System = "limpet-system"

// Bed is a running cluster with Limpet.
type Bed struct {
	Cluster *cluster.Cluster
	Client  *kubernetes.Clientset
	// Repo is the root of this repository, with its binaries built into bin.
	Repo string
}

// images returns the images that are imported into the nodes; there is no registry.
func images(repo string) []image.Image {
	bin := func(name string) string { return filepath.Join(repo, "bin", name) }
	return []image.Image{
		{Name: "limpet.test/pause:1", Files: []string{bin("pause")}},
		{Name: "cilium/echoserver:latest", Files: []string{bin("echoserver")}},
		{Name: "limpet-io/limpet-agent:dev", Files: []string{bin("limpet-agent"), bin("limpet-ipam")}},
		{Name: "limpet-io/limpet-controller:dev", Files: []string{bin("limpet-controller"), bin("kubectl-limpet")}},
	}
}

// Up starts a cluster and installs Limpet as users do with kubectl. Each edit may change what is started.
func Up(ctx context.Context, name, repo string, progress func(string, ...any), edits ...func(*cluster.Config)) (*Bed, error) {
	return UpWith(ctx, name, repo, progress, func(ctx context.Context, b *Bed) error {
		progress("installing Limpet: kubectl apply -k deploy/own-network")
		return b.Install(ctx, filepath.Join(b.Repo, "deploy/own-network"))
	}, edits...)
}

// UpWith starts a cluster without a pod network, and lets a function install Limpet there.
func UpWith(
	ctx context.Context, name, repo string, progress func(string, ...any), install func(context.Context, *Bed) error, edits ...func(*cluster.Config),
) (*Bed, error) {
	repo, err := filepath.Abs(repo)
	if err != nil {
		return nil, fmt.Errorf("find repository: %w", err)
	}
	archive := filepath.Join(repo, "bin", "images-"+name+".tar") // the next run overwrites the archive of an interrupted one
	if err := image.Write(archive, images(repo)); err != nil {
		return nil, err
	}
	config := cluster.Config{Name: name, Self: filepath.Join(repo, "bin", "limpet-cluster"), Images: []string{archive}, Progress: progress}
	for _, edit := range edits {
		edit(&config)
	}
	c, err := cluster.Up(ctx, config)
	if err != nil {
		return nil, err
	}
	b := &Bed{Cluster: c, Repo: repo}
	if b.Client, err = c.Client(); err == nil {
		err = install(ctx, b)
	}
	if err != nil {
		return nil, errors.Join(err, cluster.Down(name))
	}
	return b, nil
}

// Down stops the cluster and removes it.
func (b *Bed) Down() error { return cluster.Down(b.Cluster.Name) }

// Install applies a kustomization that makes Limpet the network, and waits until all nodes and all of Limpet are ready.
func (b *Bed) Install(ctx context.Context, kustomization string) error {
	if _, err := b.Kubectl(ctx, "apply", "-k", kustomization); err != nil {
		return err
	}
	if err := b.Cluster.WaitReady(ctx, 3*time.Minute); err != nil {
		return err
	}
	return b.AwaitLimpet(ctx)
}

// AwaitLimpet waits until every agent and every replica of the controller is ready, and none of a former template is left.
func (b *Bed) AwaitLimpet(ctx context.Context) error {
	return Await(ctx, 2*time.Minute, "Limpet to be ready", func(ctx context.Context) (bool, string) {
		d, err := b.Client.AppsV1().Deployments(System).Get(ctx, "limpet-controller", metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		s, err := b.Client.AppsV1().DaemonSets(System).Get(ctx, "limpet-agent", metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		ok := controllersReady(d) && agentsReady(s, len(b.Cluster.Nodes()))
		return ok, fmt.Sprintf("%d controllers and %d agents are ready, %d and %d of them updated",
			d.Status.ReadyReplicas, s.Status.NumberReady, d.Status.UpdatedReplicas, s.Status.UpdatedNumberScheduled)
	})
}

// controllersReady reports whether all replicas are ready, and no rollout is under way.
func controllersReady(d *appsv1.Deployment) bool {
	s, want := d.Status, *d.Spec.Replicas
	return s.ObservedGeneration == d.Generation && s.UpdatedReplicas == want && s.ReadyReplicas == want && s.Replicas == want
}

// agentsReady reports whether the agents of all nodes are ready, and no rollout is under way.
func agentsReady(d *appsv1.DaemonSet, nodes int) bool {
	s, want := d.Status, int32(nodes)
	return s.ObservedGeneration == d.Generation && s.DesiredNumberScheduled == want && s.UpdatedNumberScheduled == want && s.NumberReady == want
}

// Kubectl runs kubectl and returns standard output and standard error.
func (b *Bed) Kubectl(ctx context.Context, args ...string) (string, error) {
	return b.KubectlIn(ctx, "", args...)
}

// KubectlIn runs kubectl with standard input.
func (b *Bed) KubectlIn(ctx context.Context, stdin string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, b.Cluster.Kubectl(), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+b.Cluster.Kubeconfig())
	cmd.Stdin = bytes.NewBufferString(stdin)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("kubectl %v: %w: %s", args, err, bytes.TrimSpace(errs.Bytes()))
	}
	return out.String() + errs.String(), nil
}

// Probe starts a pod on every node, from which Call connects.
func (b *Bed) Probe(ctx context.Context) error {
	manifest := `{"apiVersion":"apps/v1","kind":"DaemonSet","metadata":{"name":"probe","namespace":"default"},"spec":{
	  "selector":{"matchLabels":{"app":"probe"}},"template":{"metadata":{"labels":{"app":"probe"}},"spec":{
	  "tolerations":[{"operator":"Exists"}],"terminationGracePeriodSeconds":1,
	  "containers":[{"name":"probe","image":"cilium/echoserver:latest","imagePullPolicy":"IfNotPresent"}]}}}}`
	if _, err := b.KubectlIn(ctx, manifest, "apply", "-f", "-"); err != nil {
		return err
	}
	_, err := b.Kubectl(ctx, "rollout", "status", "daemonset/probe", "--timeout=180s")
	return err
}

// Call sends an HTTP request to address from a probe on another node than notOn, and returns
// the response.
func (b *Bed) Call(ctx context.Context, notOn, address string) (string, error) {
	pods, err := b.Client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "app=probe"})
	if err != nil {
		return "", fmt.Errorf("list probes: %w", err)
	}
	for _, p := range pods.Items {
		if p.Spec.NodeName != notOn && p.DeletionTimestamp == nil && Ready(&p) {
			return b.Kubectl(ctx, "exec", p.Name, "--", "/echoserver", "get", "http://"+address+"/")
		}
	}
	return "", fmt.Errorf("no probe is ready on a node other than %s", notOn)
}

// Ready reports whether a pod is Ready.
func Ready(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// Await calls ask until it is done or the limit has passed. The error then names what was
// awaited and the last state.
func Await(ctx context.Context, limit time.Duration, what string, ask func(context.Context) (done bool, state string)) error {
	deadline := time.Now().Add(limit)
	for {
		done, state := ask(ctx)
		if done {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("wait %s for %s: %s", limit, what, state)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", what, context.Cause(ctx))
		case <-time.After(50 * time.Millisecond):
		}
	}
}
