// Command demo shows what Limpet does: it starts a three-node cluster, rebuilds pods in all
// ordinary ways, and counts the pods that keep their node and addresses.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/limpet-io/limpet/test/e2e/bed"
	"github.com/limpet-io/limpet/test/e2e/drain"
	"github.com/limpet-io/limpet/test/e2e/rebuild"
)

type options struct {
	name, repo, out     string
	keep, installOnly   bool
	kubectl, kubeconfig string
}

func main() {
	os.Exit(run())
}

func run() int {
	var o options
	flag.StringVar(&o.name, "name", "demo", "`name` of the cluster")
	flag.StringVar(&o.repo, "repo", "../..", "root of the repository, with its binaries in bin")
	flag.StringVar(&o.out, "out", "", "also write the results to this JSON `file`")
	flag.BoolVar(&o.keep, "keep", false, "leave the cluster running")
	flag.BoolVar(&o.installOnly, "install-only", false, "start the cluster with Limpet, leave it running and rebuild no pods")
	flag.StringVar(&o.kubectl, "kubectl", "", "link kubectl to this `file`")
	flag.StringVar(&o.kubeconfig, "kubeconfig", "", "copy the kubeconfig to this `file`")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := demo(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		return 1
	}
	return 0
}

// demo prints as its last line how many pods were kept, or returns an error.
func demo(ctx context.Context, o options) error {
	start := time.Now()
	progress := func(format string, args ...any) {
		fmt.Printf("%6.1fs  %s\n", time.Since(start).Seconds(), fmt.Sprintf(format, args...))
	}
	b, err := bed.Up(ctx, o.name, o.repo, progress)
	if err != nil {
		return err
	}
	if o.installOnly {
		return handOver(b, o, progress)
	}
	results, err := story(ctx, b, o, progress)
	if o.out != "" {
		data, jsonErr := json.MarshalIndent(results, "", "  ")
		err = errors.Join(err, jsonErr, os.WriteFile(o.out, data, 0o644))
	}
	if !o.keep {
		fmt.Println()
		progress("removing the cluster")
		err = errors.Join(err, b.Down())
	}
	kept, of, _ := rebuild.Count(results)
	if err != nil {
		return fmt.Errorf("kept %d/%d, then failed: %w", kept, of, err)
	}
	fmt.Printf("kept %d/%d\n", kept, of)
	if kept < of || of == 0 {
		return fmt.Errorf("%d pods should have been kept and were not", of-kept)
	}
	return nil
}

// handOver links kubectl, copies the kubeconfig and leaves the cluster running.
func handOver(b *bed.Bed, o options, progress func(string, ...any)) error {
	if o.kubectl != "" {
		if err := errors.Join(os.RemoveAll(o.kubectl), os.Symlink(b.Cluster.Kubectl(), o.kubectl)); err != nil {
			return fmt.Errorf("link kubectl: %w", err)
		}
	}
	if o.kubeconfig != "" {
		data, err := os.ReadFile(b.Cluster.Kubeconfig())
		if err == nil {
			err = os.WriteFile(o.kubeconfig, data, 0o600)
		}
		if err != nil {
			return fmt.Errorf("copy kubeconfig: %w", err)
		}
	}
	progress("the cluster is ready: export KUBECONFIG=%s", b.Cluster.Kubeconfig())
	return nil
}

// story applies the manifest, shows the objects and runs all steps.
func story(ctx context.Context, b *bed.Bed, o options, progress func(string, ...any)) ([]rebuild.Result, error) {
	runner := &rebuild.Runner{Bed: b, Follows: true}
	if err := b.Probe(ctx); err != nil {
		return nil, err
	}
	manifest := o.repo + "/test/e2e/testdata/follow.yaml"
	progress("kubectl apply -f %s", strings.TrimPrefix(manifest, o.repo+"/"))
	if err := runner.Apply(ctx, manifest); err != nil {
		return nil, err
	}
	for _, args := range [][]string{
		{"get", "pods", "-l", "app=" + rebuild.Set, "-o", "wide"},
		{"get", "persistentpodstates"},
		{"get", "ipreservations"},
		{"get", "nodeippools"},
	} {
		out, err := b.Kubectl(ctx, args...)
		if err != nil {
			return nil, err
		}
		fmt.Printf("\n$ kubectl %s\n%s", strings.Join(args, " "), out)
	}
	all, err := steps(ctx, runner, progress, rebuild.Steps()...)
	if err != nil {
		return all, err
	}
	plain, err := reboot(ctx, b, progress)
	all = append(all, plain...)
	if err != nil {
		return all, err
	}
	fmt.Println()
	if err := budget(ctx, b, progress); err != nil {
		return all, err
	}
	fmt.Println()
	if err := neighbours(ctx, b, progress); err != nil {
		return all, err
	}
	fmt.Println()
	return all, spread(ctx, b, progress)
}

// steps runs steps of one runner, and prints what became of its pods.
func steps(ctx context.Context, runner *rebuild.Runner, progress func(string, ...any), todo ...rebuild.Step) (all []rebuild.Result, err error) {
	for _, step := range todo {
		fmt.Println()
		progress("%s: %s", step.Name, step.Command)
		results, err := runner.Run(ctx, step)
		for _, r := range results {
			fmt.Println(line(r))
		}
		all = append(all, results...)
		if err != nil {
			fmt.Fprintln(os.Stderr, bed.Describe(context.WithoutCancel(ctx), runner.Bed))
			return all, err
		}
	}
	return all, nil
}

// reboot shows that pods that ask for nothing, those of a Deployment, have their addresses after a restart of their node.
func reboot(ctx context.Context, b *bed.Bed, progress func(string, ...any)) ([]rebuild.Result, error) {
	const name, manifest = "plain", "test/e2e/testdata/plain.yaml"
	fmt.Println()
	progress("kubectl apply -f %s", manifest)
	if _, err := b.Kubectl(ctx, "apply", "-f", b.Repo+"/"+manifest); err != nil {
		return nil, err
	}
	_, err := b.Kubectl(ctx, "rollout", "status", "deployment/"+name, "--timeout=2m")
	var results []rebuild.Result
	if err == nil {
		results, err = steps(ctx, &rebuild.Runner{Bed: b, App: name}, progress, rebuild.Reboot("n3"))
	}
	_, removed := b.Kubectl(context.WithoutCancel(ctx), "delete", "-f", b.Repo+"/"+manifest)
	return results, errors.Join(err, removed)
}

// budget shows how a budget delays the drain of a node. It counts no kept pods.
func budget(ctx context.Context, b *bed.Bed, progress func(string, ...any)) error {
	const namespace = "default"
	progress("budget: kubectl apply -f test/e2e/testdata/budget.yaml (six pods, of which one may be unavailable)")
	if err := drain.Apply(ctx, b, namespace); err != nil {
		return err
	}
	out, err := b.Kubectl(ctx, "get", "pub")
	if err != nil {
		return err
	}
	fmt.Printf("\n$ kubectl get pub\n%s\n", out)
	progress("kubectl drain of the node that has the most of these pods")
	r, err := drain.Run(ctx, b, namespace)
	for _, waited := range r.Waited {
		fmt.Println("         " + waited)
	}
	if err == nil && len(r.Waited) == 0 {
		err = errors.New("the budget did not delay the drain")
	}
	if err == nil && r.Least < 5 {
		err = fmt.Errorf("the budget demands 5 Ready pods, and %d were left", r.Least)
	}
	if err == nil {
		progress("%s had %d of the pods: its drain ended without an error after %.1f s, and %d pods or more were Ready", r.Node, r.Pods, r.Took.Seconds(), r.Least)
	}
	return errors.Join(err, drain.Undo(context.WithoutCancel(ctx), b, namespace, r.Node))
}

func line(r rebuild.Result) string {
	verdict := string(r.Outcome)
	if r.Outcome == rebuild.Followed {
		verdict = "kept, the address followed"
	}
	if r.Problem != "" {
		verdict += ", but " + r.Problem
	} else if r.Answered {
		verdict += ", answers"
	}
	return fmt.Sprintf("         %-22s node %s → %-2s   IP %s → %-24s   %5.1f s   %s",
		r.Pod, r.Before.Node, r.After.Node, strings.Join(r.Before.IPs, ","), strings.Join(r.After.IPs, ","), r.Took.Seconds(), verdict)
}
