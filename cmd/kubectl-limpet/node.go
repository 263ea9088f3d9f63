package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"

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
	agent, err := c.agentOf(cmd.Context(), node)
	if err != nil {
		return err
	}
	args := append(inAgent(cmd.Flags()), agent)
	switch {
	case verb == "logs":
		args[0] = verb
	case c.format == "json":
		args = append(args, "--", "/limpet-ipam", verb, "--output=json")
	default:
		args = append(args, "--", "/limpet-ipam", verb)
	}
	run := exec.CommandContext(cmd.Context(), "kubectl", args...)
	run.Stdout, run.Stderr = c.out, c.err
	err = run.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 1 {
		return errNo // and has said why
	}
	if err != nil {
		return fmt.Errorf("run kubectl %s: %w", args[0], err)
	}
	return nil
}

// inAgent returns the arguments with which kubectl runs a program in the pod of an agent, with the flags of the user.
func inAgent(flags *pflag.FlagSet) []string {
	args := []string{"exec", "--namespace=" + facts.Namespace, "--container=agent"}
	flags.Visit(func(f *pflag.Flag) {
		if !slices.Contains([]string{"namespace", "output", "all-namespaces", "file"}, f.Name) {
			args = append(args, "--"+f.Name+"="+f.Value.String())
		}
	})
	return args
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
