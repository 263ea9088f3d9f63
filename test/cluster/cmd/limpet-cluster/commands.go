package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/limpet-io/limpet/test/cluster/cluster"
	"github.com/limpet-io/limpet/test/cluster/image"
	"github.com/limpet-io/limpet/test/cluster/preflight"
)

func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "limpet-cluster: "+format+"\n", args...)
}

func up(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("up", flag.ContinueOnError)
	name := flags.String("name", "limpet", "`name` of the cluster")
	kubectl := flags.String("kubectl", "", "link kubectl to this `file`")
	kubeconfig := flags.String("kubeconfig", "", "copy the kubeconfig to this `file`")
	archive := flags.String("images", "", "import the images of this `file` into every node")
	if err := flags.Parse(args); err != nil {
		return err
	}
	config := cluster.Config{Name: *name, Progress: progress}
	if *archive != "" {
		config.Images = []string{*archive}
	}
	c, err := cluster.Up(ctx, config)
	if err != nil {
		return err
	}
	if *kubectl != "" {
		if err := errors.Join(os.RemoveAll(*kubectl), os.Symlink(c.Kubectl(), *kubectl)); err != nil {
			return fmt.Errorf("link kubectl: %w", err)
		}
	}
	if *kubeconfig == "" {
		progress("export KUBECONFIG=%s", c.Kubeconfig())
		return nil
	}
	data, err := os.ReadFile(c.Kubeconfig())
	if err == nil {
		err = os.WriteFile(*kubeconfig, data, 0o600)
	}
	return err
}

func down(_ context.Context, args []string) error {
	flags := flag.NewFlagSet("down", flag.ContinueOnError)
	name := flags.String("name", "limpet", "`name` of the cluster")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return errors.New("root is needed")
	}
	return cluster.Down(*name)
}

func node(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("node", flag.ContinueOnError)
	name := flags.String("name", "limpet", "`name` of the cluster")
	if err := flags.Parse(args); err != nil {
		return err
	}
	args = flags.Args()
	if len(args) < 2 {
		return errors.New("usage: limpet-cluster node [--name N] on|off|exec NODE [-- CMD…]")
	}
	c, err := cluster.Attach(*name)
	if err != nil {
		return err
	}
	switch args[0] {
	case "on":
		return c.PowerOn(args[1])
	case "off":
		return c.PowerOff(args[1])
	case "exec":
		argv := args[2:]
		if len(argv) > 0 && argv[0] == "--" {
			argv = argv[1:]
		}
		out, err := c.Exec(ctx, args[1], argv...)
		os.Stdout.Write(out) //nolint:errcheck // nobody to tell when the terminal is gone
		return err
	}
	return fmt.Errorf("node %q: want on, off or exec", args[0])
}

func images(_ context.Context, args []string) error {
	flags := flag.NewFlagSet("images", flag.ContinueOnError)
	out := flags.String("out", "images.tar", "archive to write")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var all []image.Image
	for _, arg := range flags.Args() {
		name, files, ok := strings.Cut(arg, "=")
		if !ok {
			return fmt.Errorf("image %q: want NAME=BINARY[,BINARY…]", arg)
		}
		all = append(all, image.Image{Name: name, Files: strings.Split(files, ",")})
	}
	return image.Write(*out, all)
}

func buildAll(ctx context.Context, _ []string) error {
	cache, err := cluster.DefaultCache()
	if err != nil {
		return err
	}
	if err := preflight.Check(ctx, cache, progress); err != nil {
		return err
	}
	_, err = cluster.Build(ctx, cluster.Config{Progress: progress})
	return err
}

// assets puts what an API server for tests needs into one directory.
func assets(ctx context.Context, _ []string) error {
	dirs, err := cluster.Build(ctx, cluster.Config{Progress: progress})
	if err != nil {
		return err
	}
	dir := dirs["kubernetes"] + "-assets-" + filepath.Base(dirs["etcd"])
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make assets: %w", err)
	}
	for file, from := range map[string]string{"kube-apiserver": "kubernetes", "kubectl": "kubernetes", "etcd": "etcd"} {
		err := os.Symlink(filepath.Join(dirs[from], file), filepath.Join(dir, file))
		if err != nil && !errors.Is(err, os.ErrExist) {
			return fmt.Errorf("make assets: %w", err)
		}
	}
	_, err = fmt.Println(dir)
	return err
}

func cni(ctx context.Context, _ []string) error {
	dirs, err := cluster.Build(ctx, cluster.Config{Progress: progress})
	if err != nil {
		return err
	}
	_, err = fmt.Println(dirs["cni"])
	return err
}
