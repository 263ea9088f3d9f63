package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"

	"github.com/limpet-io/limpet/internal/console/facts"
)

// node looks at a node through the pod of its agent: no shell on the node is needed.
func (c *commands) node() *cobra.Command {
	cmd := &cobra.Command{Use: "node", Short: "Look at what limpet-ipam and limpet-agent say on a node", Args: cobra.NoArgs, RunE: help}
	for verb, short := range map[string]string{
		"list":  "List the addresses in use or reserved on a node, and their holders",
		"check": "Check that the parts of the state of a node agree with each other",
		"logs":  "Print the log of the agent of a node",
	} {
		long := short + `, as limpet-ipam ` + verb + ` does there. kubectl exec runs
it in the pod of the agent, so that you need the right to create pods/exec in limpet-system.`
		if verb == "logs" {
			long = short + `, which kubectl logs reads.`
		}
		cmd.AddCommand(&cobra.Command{
			Use: verb + " NODE", Short: short, Example: "  kubectl limpet node " + verb + " n1", Args: cobra.ExactArgs(1), Long: long,
			ValidArgsFunction: c.completion(facts.Nodes, nodeNames),
			RunE:              func(cmd *cobra.Command, args []string) error { return c.onNode(cmd, args[0], verb) },
		})
	}
	return cmd
}

func (c *commands) onNode(cmd *cobra.Command, node, verb string) error {
	if c.format == "yaml" || c.format == "json" && verb == "logs" {
		return fmt.Errorf("flag --output: node %s does not print %s", verb, c.format)
	}
	agent, err := c.agentOf(cmd.Context(), node)
	if err != nil {
		return err
	}
	args := []string{"exec", agent, "--", "/limpet-ipam", verb}
	switch {
	case verb == "logs":
		args = []string{verb, agent}
	case c.format == "json":
		args = append(args, "--output=json")
	}
	return inAgent(cmd.Context(), cmd.Flags(), c.out, c.err, args...)
}

// terminated is how kubectl exec ends what it says when the program that it ran has answered no. Its own failures exit 1, too.
const terminated = "command terminated with exit code 1\n"

// inAgent runs a verb of kubectl for the container of an agent, with the flags of the user. It returns errNo for a program
// that ran there and answered no.
func inAgent(ctx context.Context, flags *pflag.FlagSet, out, told io.Writer, args ...string) error {
	all := append([]string{args[0], "--namespace=" + facts.Namespace, "--container=agent"}, given(flags)...)
	var said bytes.Buffer
	run := exec.CommandContext(ctx, "kubectl", append(all, args[1:]...)...)
	run.Stdout, run.Stderr, run.WaitDelay = out, io.MultiWriter(told, &said), time.Second
	err := run.Run()
	switch {
	case err == nil:
		return nil
	case strings.HasSuffix(said.String(), terminated):
		return errNo
	}
	return fmt.Errorf("run kubectl %s: %w", args[0], err)
}

// given returns the flags of the user that kubectl has, too.
func given(flags *pflag.FlagSet) (all []string) {
	flags.Visit(func(f *pflag.Flag) {
		if slices.Contains([]string{"namespace", "output", "all-namespaces", "file"}, f.Name) {
			return
		}
		values := []string{f.Value.String()}
		if several, is := f.Value.(pflag.SliceValue); is {
			values = several.GetSlice()
		}
		for _, v := range values {
			all = append(all, "--"+f.Name+"="+v)
		}
	})
	return all
}

// agentOf returns the name of the pod of a node's agent.
func (c *commands) agentOf(ctx context.Context, node string) (string, error) {
	f, err := c.read(ctx, "", facts.Own)
	if err != nil {
		return "", err
	}
	if err := unknown(f.Unread); err != nil {
		return "", err
	}
	i := slices.IndexFunc(f.Own, func(p corev1.Pod) bool {
		return p.Labels[facts.LabelName] == facts.Agent && p.Spec.NodeName == node && p.DeletionTimestamp == nil
	})
	if i < 0 {
		return "", fmt.Errorf("no agent runs on node %q: kubectl -n limpet-system get pods -o wide", node)
	}
	return f.Own[i].Name, nil
}
