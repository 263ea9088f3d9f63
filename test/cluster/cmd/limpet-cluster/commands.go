package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/limpet-io/limpet/test/cluster/cluster"
	"github.com/limpet-io/limpet/test/cluster/image"
	"github.com/limpet-io/limpet/test/cluster/preflight"
)

func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "limpet-cluster: "+format+"\n", args...)
}

// parse refuses words that no flag takes: a forgotten --name would mean another cluster.
func parse(flags *flag.FlagSet, args []string) error {
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%s: what is %q? Names of clusters follow --name", flags.Name(), flags.Args())
	}
	return nil
}

func down(_ context.Context, args []string) error {
	flags := flag.NewFlagSet("down", flag.ContinueOnError)
	name := flags.String("name", "limpet", "`name` of the cluster")
	if err := parse(flags, args); err != nil {
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
		return errors.New("usage: limpet-cluster node [--name N] on|off|stop|start|exec NODE [SERVICE | -- CMD…]")
	}
	c, err := cluster.Attach(*name)
	if err != nil {
		return err
	}
	switch verb := args[0]; verb {
	case "on":
		return c.PowerOn(args[1])
	case "off":
		return c.PowerOff(args[1])
	case "stop", "start":
		if len(args) != 3 {
			return fmt.Errorf("node %s: want a node and a service", verb)
		}
		if verb == "stop" {
			return c.StopService(ctx, args[1], args[2])
		}
		return c.StartService(ctx, args[1], args[2])
	case "exec":
		argv := args[2:]
		if len(argv) > 0 && argv[0] == "--" {
			argv = argv[1:]
		}
		out, err := c.Exec(ctx, args[1], argv...)
		os.Stdout.Write(out) //nolint:errcheck // no reader is left when the terminal is gone
		return err
	}
	return fmt.Errorf("node %q: want on, off, stop, start or exec", args[0])
}

func images(_ context.Context, args []string) error {
	flags := flag.NewFlagSet("images", flag.ContinueOnError)
	out := flags.String("out", "images.tar", "archive to write")
	arch := flags.String("arch", "", "`architecture` of the binaries; empty for that of this machine")
	if err := flags.Parse(args); err != nil {
		return err
	}
	all, err := assigned(flags.Args())
	if err != nil {
		return err
	}
	for i := range all {
		all[i].Architecture = *arch
	}
	return image.Write(*out, all)
}

// multiarch writes one image of several architectures, which a registry keeps under one name.
func multiarch(_ context.Context, args []string) error {
	flags := flag.NewFlagSet("multiarch", flag.ContinueOnError)
	out := flags.String("out", "image.oci.tar", "archive to write")
	name := flags.String("name", "", "`name` of the image with its tag")
	if err := flags.Parse(args); err != nil {
		return err
	}
	all, err := assigned(flags.Args())
	if err != nil {
		return err
	}
	for i := range all {
		all[i].Name, all[i].Architecture = *name, all[i].Name
	}
	return image.WriteLayout(*out, all)
}

// assigned reads words of the form NAME=BINARY[,BINARY…].
func assigned(words []string) (all []image.Image, err error) {
	for _, word := range words {
		name, files, ok := strings.Cut(word, "=")
		if !ok {
			return nil, fmt.Errorf("%q: want NAME=BINARY[,BINARY…]", word)
		}
		all = append(all, image.Image{Name: name, Files: strings.Split(files, ",")})
	}
	return all, nil
}

func buildAll(ctx context.Context, _ []string) error {
	cache, err := cluster.DefaultCache()
	if err != nil {
		return err
	}
	if err := preflight.Check(ctx, cache, progress); err != nil {
		return err
	}
	dirs, err := cluster.Build(ctx, cluster.Config{Progress: progress})
	if err != nil {
		return err
	}
	for _, component := range slices.Sorted(maps.Keys(dirs)) {
		fmt.Println(dirs[component])
	}
	return nil
}
