// Package console_test opens the page of `kubectl limpet ui` in a real browser, with a real API server behind it.
package console_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
	"github.com/limpet-io/limpet/test/programs"

	"github.com/limpet-io/limpet/test/console/browser"
)

var (
	env      *testenv.Env
	chromium browser.Browser
)

func TestMain(m *testing.M) {
	cache := os.Getenv("LIMPET_CACHE")
	if cache == "" {
		dir, err := os.UserCacheDir()
		if err != nil {
			fmt.Fprintln(os.Stderr, "find the cache:", err)
			os.Exit(1)
		}
		cache = filepath.Join(dir, "limpet")
	}
	var err error
	if chromium, err = browser.Fetch(context.Background(), cache); err != nil {
		fmt.Fprintln(os.Stderr, "prepare:", err)
		os.Exit(1)
	}
	os.Exit(testenv.Main(m, os.Getenv(programs.Var), &env, appsv1beta1.AddToScheme, policyv1beta1.AddToScheme, limpetv1alpha1.AddToScheme))
}
