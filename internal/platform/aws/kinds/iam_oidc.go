package kinds

import (
	"context"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/iam"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/observe"
	"kops.local/kops/internal/engine/resource"
)

// OIDCProvider makes the account trust tokens of an issuer.
type OIDCProvider struct {
	URL         string   `res:"forbid" tf:"url"` // including the scheme, https
	ClientIDs   []string `tf:"client_id_list"`
	Thumbprints []string `tf:"thumbprint_list"` // SHA-1 of certificates, 40 hexadecimal digits
	Tags        Tags     `tf:"tags"`

	ARN string `res:"out,id" out:"arn"`
	ID  string `res:"out,id" out:"id"` // the ARN
}

// OIDCProviders is the kind of OIDCProvider.
var OIDCProviders = resource.Kind[OIDCProvider, *Client]{
	Name:   "aws_iam_openid_connect_provider",
	API:    apiIAM,
	Phase:  resource.Security,
	Tasks:  []string{"IAMOIDCProvider"},
	Key:    func(p *OIDCProvider) string { return p.URL },
	List:   listOIDCProviders,
	Create: createOIDCProvider,
	Update: []resource.Setter[OIDCProvider, *Client]{
		{Fields: []string{"ClientIDs"}, Set: setClientIDs},
		{Fields: []string{"Thumbprints"}, Set: setThumbprints},
		{Fields: []string{"Tags"}, Set: setOIDCTags},
	},
	Delete: func(ctx context.Context, c *Client, p *OIDCProvider) error {
		_, err := c.IAM.DeleteOpenIDConnectProvider(ctx, &iam.DeleteOpenIDConnectProviderInput{OpenIDConnectProviderArn: &p.ARN})
		return fault.IgnoreGone(err)
	},
}

// issuerScheme is the scheme of every issuer; IAM leaves it out.
const issuerScheme = "https://"

// listOIDCProviders gets the wanted issuers, whose ARNs can be derived from their URLs. Finding
// others takes one request each, so only a deletion does it.
func listOIDCProviders(ctx context.Context, c *Client, s resource.Scope) ([]*OIDCProvider, error) {
	var arns []string
	for _, u := range s.Names {
		arns = append(arns, fmt.Sprintf("arn:%s:iam::%s:oidc-provider/%s", c.Partition, c.AccountID, strings.TrimPrefix(u, issuerScheme)))
	}
	if s.All {
		out, err := c.IAM.ListOpenIDConnectProviders(ctx, &iam.ListOpenIDConnectProvidersInput{})
		if err != nil {
			return nil, fmt.Errorf("list OIDC providers: %w", err)
		}
		for _, p := range out.OpenIDConnectProviderList {
			arns = append(arns, *p.Arn)
		}
	}
	return observe.Each(ctx, distinct(arns), func(ctx context.Context, arn string) (*OIDCProvider, error) {
		out, err := c.IAM.GetOpenIDConnectProvider(ctx, &iam.GetOpenIDConnectProviderInput{OpenIDConnectProviderArn: &arn})
		if err != nil {
			return nil, fault.IgnoreGone(err)
		}
		p := &OIDCProvider{URL: issuerScheme + strings.TrimPrefix(deref(out.Url), issuerScheme), ClientIDs: out.ClientIDList,
			Thumbprints: out.ThumbprintList, Tags: iamTagMap(out.Tags), ARN: arn, ID: arn}
		return filterIAM(s, p, "the OIDC provider", p.URL, arn, p.Tags)
	})
}

func createOIDCProvider(ctx context.Context, c *Client, p *OIDCProvider) error {
	out, err := c.IAM.CreateOpenIDConnectProvider(ctx, &iam.CreateOpenIDConnectProviderInput{
		Url: &p.URL, ClientIDList: p.ClientIDs, ThumbprintList: p.Thumbprints, Tags: iamTags(p.Tags)})
	if err != nil {
		return err
	}
	p.ARN, p.ID = *out.OpenIDConnectProviderArn, *out.OpenIDConnectProviderArn
	return nil
}

// setClientIDs adds before it removes, so that no audience is rejected in between.
func setClientIDs(ctx context.Context, c *Client, have, want *OIDCProvider) error {
	add, drop := listChange(have.ClientIDs, want.ClientIDs)
	for _, id := range add {
		_, err := c.IAM.AddClientIDToOpenIDConnectProvider(ctx, &iam.AddClientIDToOpenIDConnectProviderInput{
			OpenIDConnectProviderArn: &have.ARN, ClientID: &id})
		if err != nil {
			return err
		}
	}
	for _, id := range drop {
		_, err := c.IAM.RemoveClientIDFromOpenIDConnectProvider(ctx, &iam.RemoveClientIDFromOpenIDConnectProviderInput{
			OpenIDConnectProviderArn: &have.ARN, ClientID: &id})
		if err != nil {
			return err
		}
	}
	return nil
}

func setThumbprints(ctx context.Context, c *Client, have, want *OIDCProvider) error {
	_, err := c.IAM.UpdateOpenIDConnectProviderThumbprint(ctx, &iam.UpdateOpenIDConnectProviderThumbprintInput{
		OpenIDConnectProviderArn: &have.ARN, ThumbprintList: want.Thumbprints})
	return err
}

func setOIDCTags(ctx context.Context, c *Client, have, want *OIDCProvider) error {
	return retag(have.Tags, want.Tags,
		func(set map[string]string) error {
			_, err := c.IAM.TagOpenIDConnectProvider(ctx, &iam.TagOpenIDConnectProviderInput{OpenIDConnectProviderArn: &have.ARN, Tags: iamTags(set)})
			return err
		},
		func(drop []string) error {
			_, err := c.IAM.UntagOpenIDConnectProvider(ctx, &iam.UntagOpenIDConnectProviderInput{OpenIDConnectProviderArn: &have.ARN, TagKeys: drop})
			return err
		})
}
