package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/limpet-io/limpet/test/cluster/build"
	"github.com/limpet-io/limpet/test/cluster/cluster"
)

const assetsUsage = `limpet-cluster assets --dir DIR PROGRAM…

Fills DIR with one link for each named program. A program that is not in the cache is built
first. Other links in DIR are removed. A DIR that holds anything but links is refused.

Programs by component:
`

// assets fills a directory with the programs that tests start, and prints its path.
func assets(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("assets", flag.ContinueOnError)
	dir := flags.String("dir", "", "directory to make")
	flags.Usage = func() { writeAssetsUsage(flags.Output()) }
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *dir == "" || flags.NArg() == 0 {
		return errors.New("assets: name a directory with --dir, and at least one program; see limpet-cluster assets --help")
	}
	components, err := componentsOf(flags.Args())
	if err != nil {
		return err
	}
	dirs, err := cluster.Build(ctx, cluster.Config{Progress: progress}, slices.Collect(maps.Values(components))...)
	if err != nil {
		return err
	}
	if err := removeLinks(*dir); err != nil {
		return err
	}
	for program, component := range components {
		if err := os.Symlink(filepath.Join(dirs[component], program), filepath.Join(*dir, program)); err != nil {
			return fmt.Errorf("make assets: %w", err)
		}
	}
	_, err = fmt.Println(*dir)
	return err
}

func writeAssetsUsage(w io.Writer) {
	fmt.Fprint(w, assetsUsage)
	all := build.Programs()
	for _, component := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(w, "  %-11s %s\n", component, strings.Join(all[component], " "))
	}
}

// componentsOf returns the component of each program, and an error that names a program
// of no component.
func componentsOf(programs []string) (map[string]string, error) {
	found := map[string]string{}
	for component, all := range build.Programs() {
		for _, p := range programs {
			if slices.Contains(all, p) {
				found[p] = component
			}
		}
	}
	for _, p := range programs {
		if found[p] == "" {
			return nil, fmt.Errorf("assets: no component has the program %q; limpet-cluster assets --help lists them", p)
		}
	}
	return found, nil
}

// removeLinks makes dir when it is missing and removes the links in it. It returns an
// error, and removes nothing, when dir holds anything else: then dir is not of assets' making.
func removeLinks(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make assets: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("make assets: %w", err)
	}
	for _, e := range entries {
		if e.Type() != fs.ModeSymlink {
			return fmt.Errorf("make assets: %s holds %s, which is no link; name another directory with --dir", dir, e.Name())
		}
	}
	for _, e := range entries {
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
			return fmt.Errorf("make assets: %w", err)
		}
	}
	return nil
}
