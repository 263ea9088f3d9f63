// Package console_test opens the page of `kubectl limpet ui` in a real browser, with a real API server behind it.
package console_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
	"github.com/limpet-io/limpet/test/debian"
	"github.com/limpet-io/limpet/test/programs"

	"github.com/limpet-io/limpet/test/console/browser"
)

var (
	env      *testenv.Env
	chromium browser.Browser
)

func TestMain(m *testing.M) {
	cache, err := debian.Cache(os.Getenv(debian.CacheVar))
	if err == nil {
		chromium, err = browser.Fetch(context.Background(), cache)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "prepare:", err)
		os.Exit(1)
	}
	os.Exit(testenv.Main(m, os.Getenv(programs.Var), &env, appsv1beta1.AddToScheme, policyv1beta1.AddToScheme, limpetv1alpha1.AddToScheme))
}
