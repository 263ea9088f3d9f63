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

// Names lists the components.
func Names() []string {
	var all []string
	for _, c := range components {
		all = append(all, c.name)
	}
	return all
}

// Hash returns the hash of a component, with flags that are not its own if any are
// given.
func (b *Builder) Hash(ctx context.Context, name, ldflags string) (string, error) {
	for _, c := range components {
		if c.name == name {
			c.ldflags += ldflags
			return b.hash(ctx, c)
		}
	}
	return "", nil
}

// Source lays out the build module of a component.
func (b *Builder) Source(ctx context.Context, name string) (string, error) {
	i := slices.IndexFunc(components, func(c component) bool { return c.name == name })
	return b.source(ctx, components[i])
}

// Versions lists the version of each component.
func Versions() map[string]string {
	all := map[string]string{}
	for _, c := range components {
		all[c.name] = c.version
	}
	return all
}

// Lock takes the lock of a component.
func (b *Builder) Lock(ctx context.Context, component string) (unlock func(), err error) {
	return b.lock(ctx, component)
}
