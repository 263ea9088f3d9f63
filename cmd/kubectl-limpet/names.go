package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/limpet-io/limpet/internal/console"
	"github.com/limpet-io/limpet/internal/console/facts"
)

// namespaced takes the namespace out of names such as shop/web-0, and makes it that of the command.
func (c *commands) namespaced(names []string) ([]string, error) {
	bare, given := make([]string, len(names)), *c.config.Namespace
	for i, name := range names {
		namespace, pod, found := strings.Cut(name, "/")
		switch {
		case !found && i > 0 && *c.config.Namespace != given:
			return nil, fmt.Errorf("%s has no namespace, and %s has one: give --namespace", name, names[0])
		case !found:
			bare[i] = name
			continue
		case namespace == "" || pod == "" || strings.Contains(pod, "/"):
			return nil, fmt.Errorf("%q is not the name of a pod: give NAME or NAMESPACE/NAME", name)
		case *c.config.Namespace != "" && *c.config.Namespace != namespace, i > 0 && *c.config.Namespace == "":
			return nil, fmt.Errorf("%s: give one namespace, by --namespace or in front of each name", name)
		}
		bare[i], *c.config.Namespace = pod, namespace
	}
	return bare, nil
}

// podOf returns the namespace and the name of the pod that an argument means, and a reader.
func (c *commands) podOf(ctx context.Context, argument string) (reader facts.Reader, namespace, name string, err error) {
	names, err := c.namespaced([]string{argument})
	if err != nil {
		return reader, "", "", err
	}
	reader, namespace, err = c.reader()
	if err != nil || !c.everywhere || *c.config.Namespace != "" {
		return reader, namespace, names[0], err
	}
	f, err := reader.Read(ctx, "", facts.Pods, facts.Kept, facts.States)
	if err == nil {
		err = unknown(f.Unread)
	}
	if err != nil {
		return reader, "", "", err
	}
	switch found := console.NamespacesOf(f, argument); len(found) {
	case 0:
		return reader, "", "", fmt.Errorf("nothing is known of a pod %s in any namespace: check the name", argument)
	case 1:
		return reader, found[0], argument, nil
	default:
		return reader, "", "", fmt.Errorf("several namespaces know a pod %s: name one of %s/%[1]s", argument, strings.Join(found, "/"+argument+", "))
	}
}

// errOneNamespace is the answer of a command that changes objects to --all-namespaces.
var errOneNamespace = errors.New("flag --all-namespaces: this command works in one namespace: give --namespace")

// completion offers names of objects that the arguments do not have yet.
func (c *commands) completion(part facts.Part, names func(*facts.Facts) []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		reader, namespace, err := c.reader()
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		f, err := reader.Read(cmd.Context(), namespace, part)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		offered := slices.DeleteFunc(names(f), func(name string) bool { return slices.Contains(args, name) })
		slices.Sort(offered)
		return slices.Compact(offered), cobra.ShellCompDirectiveNoFileComp
	}
}

// completePod offers the pods of the namespace for the first argument.
func (c *commands) completePod(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return c.completion(facts.Pods, func(f *facts.Facts) (names []string) {
		for i := range f.Pods {
			names = append(names, f.Pods[i].Name)
		}
		return names
	})(cmd, args, begun)
}

func nodeNames(f *facts.Facts) (names []string) {
	for i := range f.Nodes {
		names = append(names, f.Nodes[i].Name)
	}
	return names
}

// reservedPods returns the pods that have a reservation to release.
func reservedPods(f *facts.Facts) (names []string) {
	for i := range f.Reservations {
		if s := f.Reservations[i].Status; s.Releases() != "" {
			names = append(names, s.Pod)
		}
	}
	return names
}
