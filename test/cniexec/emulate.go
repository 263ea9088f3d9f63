package cniexec

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/limpet-io/limpet/test/debian"
)

// EmulatedVar is the environment variable that names another architecture, whose programs the tests run: arm64.
const EmulatedVar = "LIMPET_EMULATED"

// Emulator returns the program that runs programs of an architecture. It must be called before Alone hides what apt needs.
func Emulator(ctx context.Context, cache, architecture string) (string, error) {
	const name = "usr/bin/qemu-aarch64-static"
	if architecture != "arm64" {
		return "", fmt.Errorf("%s is %q: %w", EmulatedVar, architecture, errors.ErrUnsupported)
	}
	dir, err := debian.Program{
		Name: "qemu", Packages: []string{"qemu-user-static"},
		Works: func(ctx context.Context, dir string) error {
			return exec.CommandContext(ctx, filepath.Join(dir, name), "--version").Run()
		},
	}.Fetch(ctx, cache)
	return filepath.Join(dir, name), err
}

// Emulate builds a program again, for arm64, and lets the emulator run it at the same path.
func Emulate(ctx context.Context, root, emulator, program, what string) error {
	foreign := program + ".arm64"
	if err := goBuild(ctx, root, foreign, what, "GOARCH=arm64"); err != nil {
		return err
	}
	if err := os.Remove(program); err != nil {
		return fmt.Errorf("replace program: %w", err)
	}
	return os.WriteFile(program, fmt.Appendf(nil, "#!/bin/sh\nexec %s %s \"$@\"\n", emulator, foreign), 0o755)
}
