// Package main is limpet-controller: it records where pods run that return under
// their names, and brings rebuilt pods back there.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/klog/v2/textlogger"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/limpet-io/limpet/internal/version"
)

func main() { os.Exit(run()) }

const usage = `limpet-controller records where pods ran, and brings rebuilt pods back to that place.

Usage:
  limpet-controller [flags]   run the controller, as the Deployment does
  limpet-controller version   print the version

Flags:
`

func run() int {
	options := Default()
	flags := pflag.NewFlagSet("limpet-controller", pflag.ContinueOnError)
	options.addFlags(flags)
	printVersion := flags.Bool("version", false, "print the version and exit")
	flags.Usage = func() { fmt.Fprint(os.Stderr, usage, flags.FlagUsages()) }
	err := flags.Parse(os.Args[1:])
	if errors.Is(err, pflag.ErrHelp) {
		return 0
	}
	if *printVersion || flags.Arg(0) == "version" {
		fmt.Fprintln(os.Stdout, "limpet-controller", version.String())
		return 0
	}
	if err == nil && flags.NArg() > 0 {
		err = fmt.Errorf("%q is not a command; see limpet-controller --help", flags.Arg(0))
	}
	if err = errors.Join(err, options.validate()); err != nil {
		fmt.Fprintln(os.Stderr, "limpet-controller:", err)
		return 2
	}
	if options.Host, err = os.Hostname(); err != nil {
		fmt.Fprintln(os.Stderr, "limpet-controller: name this replica:", err)
		return 1
	}
	ctrl.SetLogger(quiet(textlogger.NewLogger(textlogger.NewConfig())))
	if err := serve(ctrl.SetupSignalHandler(), options); err != nil {
		ctrl.Log.Error(err, "Stopped")
		return 1
	}
	return 0
}

func serve(ctx context.Context, options options) error {
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("read cluster configuration: %w", err)
	}
	// Requests wait at the API server, which gives each namespace its turn: deploy/flow-control. A rate of the client
	// would let what one tenant causes delay all others.
	config.QPS = -1
	config.UserAgent = "limpet-controller"
	if err := awaitServer(ctx, config, clock.RealClock{}); err != nil {
		return err
	}
	mgr, err := newManager(ctx, config, options)
	if err != nil {
		return remedied(err)
	}
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("run: %w", err)
	}
	return nil
}

// remedied says what to do where a controller is newer than the CRDs.
func remedied(err error) error {
	if meta.IsNoMatchError(err) {
		return fmt.Errorf("%w; remedy: apply the CRDs of this version, kubectl apply --server-side -k deploy/crds", err)
	}
	return err
}
