package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/limpet-io/limpet/internal/console"
	"github.com/limpet-io/limpet/internal/console/facts"
	"github.com/limpet-io/limpet/internal/version"
)

// logLines is how many lines of each log are in a bundle.
const logLines = 5000

func (c *commands) bundle() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "support-bundle",
		Short: "Collect diagnostics into an archive",
		Long: `Collect reports, the objects of Limpet, its pods with their logs, and its events into one archive. It names
pods, nodes and addresses. It has no Secret, and of your pods neither environment nor arguments. Values of
the environment of Limpet's pods, of foreign annotations, of patches, and tokens in logs are left out. With
--namespace, only the objects of that namespace are read, beside nodes and Limpet. The log of limpet-ipam on
each node comes from its kubelet, for which you need the right to get nodes/proxy, and what it says of its
state from kubectl exec, for which you need the right to create pods/exec in limpet-system. A node that does
not answer is waited for 10 seconds, 16 nodes at a time.`,
		Example: "  kubectl limpet support-bundle -f limpet.tar.gz",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			reader, _, err := c.reader()
			if err != nil {
				return err
			}
			b := console.Bundle{Reader: reader, Namespace: *c.config.Namespace, Version: version.String(), Told: func(name string) { fmt.Fprintln(c.err, "added", name) }}
			if err := c.logs(&b, cmd.Flags()); err != nil {
				return err
			}
			var unread []facts.Unread
			if err := writeNew(file, func(w io.Writer) (err error) { unread, err = b.Write(cmd.Context(), w); return err }); err != nil {
				return err
			}
			fmt.Fprintln(c.out, "wrote", file)
			return unknown(unread)
		},
	}
	cmd.Flags().StringVarP(&file, "file", "f", "limpet-support.tar.gz", "the archive, which must not exist")
	return cmd
}

// logs gives a bundle the logs of Limpet's pods, those that a kubelet serves of its node, and what limpet-ipam says there.
func (c *commands) logs(b *console.Bundle, flags *pflag.FlagSet) error {
	rest, err := c.config.ToRESTConfig()
	if err != nil {
		return fmt.Errorf("read the kubeconfig: %w", err)
	}
	rest.QPS, rest.Burst = 50, 100
	clients, err := kubernetes.NewForConfig(rest)
	if err != nil {
		return fmt.Errorf("connect to the API server: %w", err)
	}
	b.Log = func(ctx context.Context, pod, container string, previous bool) (io.ReadCloser, error) {
		options := &corev1.PodLogOptions{Container: container, TailLines: new(int64(logLines)), Previous: previous}
		return clients.CoreV1().Pods(facts.Namespace).GetLogs(pod, options).Stream(ctx)
	}
	b.PluginLog = func(ctx context.Context, node string) (io.ReadCloser, error) {
		return clients.CoreV1().RESTClient().Get().Resource("nodes").Name(node).SubResource("proxy").Suffix("logs", "limpet", "ipam.log").
			SetHeader("Range", fmt.Sprintf("bytes=-%d", console.MostLog)).Stream(ctx)
	}
	b.OnNode = func(ctx context.Context, agent, verb string) ([]byte, error) {
		var out, told bytes.Buffer
		err := inAgent(ctx, flags, &out, &told, "exec", agent, "--", "/limpet-ipam", verb)
		switch {
		case errors.Is(err, errNo): // a problem of the node, which the text names
			err = nil
		case err != nil:
			err = fmt.Errorf("%w: %s", err, told.Bytes())
		}
		return out.Bytes(), err
	}
	return nil
}

// writeNew writes a file that does not exist yet. A file that cannot be written whole is removed.
func writeNew(path string, write func(io.Writer) error) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("create the archive: %w", err)
	}
	if err := errors.Join(write(file), file.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}
