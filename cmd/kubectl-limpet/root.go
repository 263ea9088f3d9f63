package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/transport"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/limpet-io/limpet/internal/console/facts"
	"github.com/limpet-io/limpet/internal/console/text"
	"github.com/limpet-io/limpet/internal/version"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

const long = `kubectl limpet tells what Limpet keeps, what needs attention, and what an eviction or a drain
would do. It works through the API alone, with your rights, and names what you may not read. Only
the commands release, test, join and leave change anything, and test nothing outside a namespace of
its own.

Exit status: 0: healthy or allowed; 1: broken, refused or contradicting; 2: the command could not do
its work, or could not read all that it needs.`

// surroundings are what main gives to the commands.
type surroundings struct {
	out, err io.Writer
	in       io.Reader // a terminal whose user can answer; nil without one
	now      func() time.Time
	// colour tells that the output is a terminal whose user wants colours.
	colour bool
}

// commands is what all commands share.
type commands struct {
	surroundings
	config     *genericclioptions.ConfigFlags
	format     string
	everywhere bool // all namespaces
}

func newRoot(around surroundings) *cobra.Command {
	around.out, around.err = text.Plain{To: around.out}, text.Plain{To: around.err}
	c := &commands{surroundings: around, config: genericclioptions.NewConfigFlags(true)}
	root := &cobra.Command{
		Use:           "kubectl-limpet",
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl limpet"},
		Short:         "Tell what Limpet keeps, what needs attention, and what a drain would do",
		Long:          long,
		Version:       version.String(),
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if c.everywhere {
				*c.config.Namespace = "" // as in kubectl
			}
			if _, names := cmd.Annotations[namesToo]; names && c.format == formatName {
				return nil
			}
			if !slices.Contains(formats, c.format) {
				return fmt.Errorf("flag --output: %q is not one of table, wide, json and yaml", c.format)
			}
			return nil
		},
	}
	root.SetOut(c.out)
	root.SetErr(c.err)
	c.config.AddFlags(root.PersistentFlags())
	root.PersistentFlags().StringVarP(&c.format, "output", "o", "table", "format: table, wide, json or yaml")
	root.PersistentFlags().BoolVarP(&c.everywhere, "all-namespaces", "A", false, "all namespaces, whatever --namespace says; a pod is looked for")
	complete(root, "output", formats)
	root.AddCommand(c.status(), c.pod(), c.lost(), c.budgets(), c.explain(), c.plan(), c.audit(), c.release(), c.test(), c.join(), c.leave(), c.version(), c.bundle(), c.ui(), c.node())
	return root
}

// formatName is the format that prints names alone, and namesToo is the annotation of a command that has it.
const formatName, namesToo = "name", "format-name"

var formats = []string{"table", "wide", "json", "yaml"}

func complete(cmd *cobra.Command, flag string, values []string) {
	utilruntime.Must(cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)))
}

// client returns a client with the rights of the user, and the namespace of the command. Each of wraps may change
// requests and answers.
func (c *commands) client(wraps ...transport.WrapperFunc) (client.Client, string, error) {
	rest, err := c.config.ToRESTConfig()
	if err != nil {
		return nil, "", fmt.Errorf("read the kubeconfig: %w", err)
	}
	rest.QPS, rest.Burst = 50, 100
	for _, w := range wraps {
		rest.Wrap(w)
	}
	namespace, _, err := c.config.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, "", fmt.Errorf("read the namespace of the kubeconfig: %w", err)
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, appsv1beta1.AddToScheme, policyv1beta1.AddToScheme, limpetv1alpha1.AddToScheme,
	} {
		utilruntime.Must(add(scheme))
	}
	made, err := client.New(rest, client.Options{Scheme: scheme})
	if err != nil {
		return nil, "", fmt.Errorf("connect to the API server: %w", err)
	}
	return made, namespace, nil
}

// reader returns a reader of facts, and the namespace of the command.
func (c *commands) reader() (facts.Reader, string, error) {
	made, namespace, err := c.client()
	return facts.Reader{Client: made, Now: c.now}, namespace, err
}

// print prints a report as data, or as text.
func (c *commands) print(report any, asText func(io.Writer, text.Style)) error {
	switch c.format {
	case "json":
		encoder := json.NewEncoder(c.out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(report)
	case "yaml":
		var plain bytes.Buffer // YAML has no control characters
		err := json.NewEncoder(text.Plain{To: &plain}).Encode(report)
		data, bad := yaml.JSONToYAML(plain.Bytes())
		if err = errors.Join(err, bad); err != nil {
			return fmt.Errorf("write the report as YAML: %w", err)
		}
		_, err = c.out.Write(data)
		return err
	}
	asText(c.out, text.Style{Wide: c.format == "wide", Colour: c.colour, Now: c.now()})
	return nil
}
