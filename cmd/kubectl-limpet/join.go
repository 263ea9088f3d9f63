package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/console"
)

func (c *commands) join() *cobra.Command {
	var p console.Peer
	cmd := &cobra.Command{
		Use:   "join CONTEXT",
		Short: "Let the controller read the budgets of another cluster",
		Long: `Let the controller of this cluster read the DistributedPodDisruptionBudgets of another one, which is a
context of your kubeconfig. There, the command makes an account that may read this kind and nothing
else, or with --pdb PodDisruptionBudgets, too; its token does not expire. Here, it writes Secret limpet-system/limpet-peers, which the
controller reads again within two minutes. Run it again to renew what is written. Budgets of two
clusters that name one another need it in both directions, and each controller its --cluster-name.`,
		Example: "  kubectl --context blue limpet join green\n  kubectl --context blue limpet join admin@green --name green --server https://10.1.0.1:6443",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			here, _, err := c.client()
			if err != nil {
				return err
			}
			other := genericclioptions.NewConfigFlags(true)
			other.KubeConfig, other.Context = c.config.KubeConfig, &args[0]
			there := &commands{surroundings: c.surroundings, config: other}
			if p.There, _, err = there.client(); err != nil {
				return err
			}
			config, err := other.ToRESTConfig()
			if err != nil {
				return fmt.Errorf("read context %s of the kubeconfig: %w", args[0], err)
			}
			p.Name, p.Server = cmp.Or(p.Name, args[0]), cmp.Or(p.Server, config.Host)
			if p.Authority, err = authorityOf(config); err != nil {
				return err
			}
			if err := console.Join(cmd.Context(), here, p); err != nil {
				return err
			}
			fmt.Fprintf(c.out, "The controller reads the budgets of cluster %s at %s.\n", p.Name, p.Server)
			return nil
		},
	}
	cmd.Flags().StringVar(&p.Name, "name", "", "name by which budgets name the other cluster, the --cluster-name of its controller; by default the name of the context")
	cmd.Flags().BoolVar(&p.Plain, "pdb", false, "let it read PodDisruptionBudgets, too, for budgets that have some among their peers")
	cmd.Flags().StringVar(&p.Server, "server", "", "URL of its API server, as the pods of this cluster reach it; by default that of the context")
	return cmd
}

// authorityOf returns the certificate authority of an API server.
func authorityOf(config *rest.Config) ([]byte, error) {
	if config.Insecure {
		return nil, errors.New("the context does not check the certificate of the API server (insecure-skip-tls-verify); remedy: set certificate-authority-data")
	}
	if len(config.CAData) > 0 || config.CAFile == "" {
		return config.CAData, nil
	}
	authority, err := os.ReadFile(config.CAFile)
	if err != nil {
		return nil, fmt.Errorf("read the certificate authority of the context: %w", err)
	}
	return authority, nil
}

func (c *commands) leave() *cobra.Command {
	gone := false
	cmd := &cobra.Command{
		Use:   "leave CLUSTER",
		Short: "Let the controller no longer read the budgets of another cluster",
		Long: `Take a cluster out of Secret limpet-system/limpet-peers, under the name that budgets have for it. Pods of
budgets that still name it stay, or go as their partitionPolicy says. With --gone, you declare that the
cluster is gone for good: its entries leave spec.federation of all budgets here, too, and these divide
all units without it; minAvailable stays: lower it by its pods. Do that in each cluster that is left. If the
other one still runs, both sides may let a pod go. The account limpet-peer in the other cluster stays; delete it there.`,
		Example: "  kubectl --context blue limpet leave green\n  kubectl --context blue limpet leave green --gone",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			here, _, err := c.client()
			if err != nil {
				return err
			}
			changed := 0
			var failed error
			if gone {
				changed, failed = c.declareGone(cmd.Context(), here, args[0])
			}
			err = console.Leave(cmd.Context(), here, args[0])
			if err != nil && (changed == 0 || !errors.Is(err, console.ErrNoPeer)) { // it may have left before it was gone
				return errors.Join(failed, err)
			}
			fmt.Fprintf(c.out, "The controller no longer reads the budgets of cluster %s.\n", args[0])
			return failed
		},
	}
	cmd.Flags().BoolVar(&gone, "gone", false, "declare the cluster gone: take it out of all budgets here, too")
	return cmd
}

// declareGone takes a cluster out of all budgets, and says which it has changed and what is left to do there.
func (c *commands) declareGone(ctx context.Context, here client.Client, name string) (int, error) {
	changed, err := console.DeclareGone(ctx, here, name)
	for _, b := range changed {
		fmt.Fprintf(c.out, "DistributedPodDisruptionBudget %s/%s no longer counts with cluster %s.\n", b.Namespace, b.Name, name)
		if least := b.Spec.MinAvailable; least != nil {
			fmt.Fprintf(c.out, "  Its minAvailable is %s: lower it by the pods of cluster %s.\n", least, name)
		}
	}
	return len(changed), err
}
