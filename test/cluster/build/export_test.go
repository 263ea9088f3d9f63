package build

import (
	"context"
	"slices"
)

// What the tests look at.
var (
	Prune = prune
	Kept  = kept
)

// all are the components, with the other versions of Kubernetes.
func all() []component {
	all := slices.Clone(components)
	for minor, version := range others {
		all = append(all, kubernetes(version, moduleOf(minor)))
	}
	return all
}

// Names lists the build modules.
func Names() []string {
	var names []string
	for _, c := range all() {
		names = append(names, c.file())
	}
	return names
}

// Hash returns the hash of a component, with flags that are not its own if any are
// given.
func (b *Builder) Hash(ctx context.Context, name, ldflags string) (string, error) {
	for _, c := range all() {
		if c.file() == name {
			c.ldflags += ldflags
			return b.hash(ctx, c)
		}
	}
	return "", nil
}

// Source lays out the build module of a component.
func (b *Builder) Source(ctx context.Context, name string) (string, error) {
	for _, c := range all() {
		if c.file() == name {
			return b.source(ctx, c)
		}
	}
	return "", nil
}

// Versions lists the version of each build module.
func Versions() map[string]string {
	versions := map[string]string{}
	for _, c := range all() {
		versions[c.file()] = c.version
	}
	return versions
}

// Lock takes the lock of a component.
func (b *Builder) Lock(ctx context.Context, component string) (unlock func(), err error) {
	return b.lock(ctx, component)
}
