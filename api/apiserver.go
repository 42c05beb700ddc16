package api

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// KubeAPIServerConfig sets flags and the pod of the API server.
type KubeAPIServerConfig struct {
	// Image replaces the default image of the version.
	Image            string `json:"image,omitempty"`
	DisableBasicAuth *bool  `json:"disableBasicAuth,omitempty"`
	// LogFormat is text or json.
	LogFormat string `json:"logFormat,omitempty" flag:"logging-format (empty=text)"`
	// LogLevel is the verbosity; higher is more.
	LogLevel           int32            `json:"logLevel,omitempty" flag:"v (empty=0)"`
	CloudProvider      string           `json:"cloudProvider,omitempty" flag:"cloud-provider"`
	CompactionInterval *metav1.Duration `json:"compactionInterval,omitempty" flag:"etcd-compaction-interval"`
	// SecurePort is 443 or 6443, depending on the platform.
	SecurePort   int32  `json:"securePort,omitempty" flag:"secure-port"`
	InsecurePort *int32 `json:"insecurePort,omitempty" flag:"insecure-port"`
	// Address no longer has an effect.
	Address                  string `json:"address,omitempty" flag:"address"`
	AdvertiseAddress         string `json:"advertiseAddress,omitempty" flag:"advertise-address"`
	BindAddress              string `json:"bindAddress,omitempty" flag:"bind-address"`
	InsecureBindAddress      string `json:"insecureBindAddress,omitempty" flag:"insecure-bind-address"`
	EnableBootstrapTokenAuth *bool  `json:"enableBootstrapTokenAuth,omitempty" flag:"enable-bootstrap-token-auth"`
	EnableAggregatorRouting  *bool  `json:"enableAggregatorRouting,omitempty" flag:"enable-aggregator-routing"`
	// AdmissionControl is refused; use enableAdmissionPlugins.
	AdmissionControl []string `json:"admissionControl,omitempty" flag:"admission-control"`
	// AppendAdmissionPlugins are added to those enabled by default.
	AppendAdmissionPlugins []string `json:"appendAdmissionPlugins,omitempty"`
	// EnableAdmissionPlugins replaces the whole list of plug-ins.
	EnableAdmissionPlugins     []string `json:"enableAdmissionPlugins,omitempty" flag:"enable-admission-plugins"`
	DisableAdmissionPlugins    []string `json:"disableAdmissionPlugins,omitempty" flag:"disable-admission-plugins"`
	AdmissionControlConfigFile string   `json:"admissionControlConfigFile,omitempty" flag:"admission-control-config-file"`
	ServiceClusterIPRange      string   `json:"serviceClusterIPRange,omitempty" flag:"service-cluster-ip-range"`
	// ServiceNodePortRange is first-last.
	ServiceNodePortRange string   `json:"serviceNodePortRange,omitempty" flag:"service-node-port-range"`
	EtcdServers          []string `json:"etcdServers,omitempty" flag:"etcd-servers"`
	EtcdServersOverrides []string `json:"etcdServersOverrides,omitempty" flag:"etcd-servers-overrides"`
	EtcdCAFile           string   `json:"etcdCAFile,omitempty" flag:"etcd-cafile"`
	EtcdCertFile         string   `json:"etcdCertFile,omitempty" flag:"etcd-certfile"`
	EtcdKeyFile          string   `json:"etcdKeyFile,omitempty" flag:"etcd-keyfile"`
	ClientCAFile         string   `json:"clientCAFile,omitempty" flag:"client-ca-file"`
	BasicAuthFile        string   `json:"basicAuthFile,omitempty" flag:"basic-auth-file"`
	TLSCertFile          string   `json:"tlsCertFile,omitempty" flag:"tls-cert-file"`
	TLSPrivateKeyFile    string   `json:"tlsPrivateKeyFile,omitempty" flag:"tls-private-key-file"`
	// TLSCipherSuites are the names of the offered cipher suites, as in Go.
	TLSCipherSuites []string `json:"tlsCipherSuites,omitempty" flag:"tls-cipher-suites"`
	// TLSMinVersion is the oldest version accepted, such as VersionTLS12.
	TLSMinVersion                            string             `json:"tlsMinVersion,omitempty" flag:"tls-min-version"`
	TokenAuthFile                            string             `json:"tokenAuthFile,omitempty" flag:"token-auth-file"`
	AllowPrivileged                          *bool              `json:"allowPrivileged,omitempty" flag:"allow-privileged"`
	APIServerCount                           *int32             `json:"apiServerCount,omitempty" flag:"apiserver-count"`
	RuntimeConfig                            map[string]string  `json:"runtimeConfig,omitempty" flag:"runtime-config"`
	KubeletCertificateAuthority              string             `json:"kubeletCertificateAuthority,omitempty" flag:"kubelet-certificate-authority"`
	KubeletClientCertificate                 string             `json:"kubeletClientCertificate,omitempty" flag:"kubelet-client-certificate"`
	KubeletClientKey                         string             `json:"kubeletClientKey,omitempty" flag:"kubelet-client-key"`
	AnonymousAuth                            *bool              `json:"anonymousAuth,omitempty" flag:"anonymous-auth"`
	KubeletPreferredAddressTypes             []string           `json:"kubeletPreferredAddressTypes,omitempty" flag:"kubelet-preferred-address-types"`
	StorageBackend                           *string            `json:"storageBackend,omitempty" flag:"storage-backend"`
	ProxyClientCertFile                      *string            `json:"proxyClientCertFile,omitempty" flag:"proxy-client-cert-file"`
	ProxyClientKeyFile                       *string            `json:"proxyClientKeyFile,omitempty" flag:"proxy-client-key-file"`
	OIDCCAFile                               *string            `json:"oidcCAFile,omitempty" flag:"oidc-ca-file"`
	AuthenticationConfigFile                 string             `json:"authenticationConfigFile,omitempty" flag:"authentication-config"`
	AuditLogFormat                           *string            `json:"auditLogFormat,omitempty" flag:"audit-log-format"`
	AuditLogPath                             *string            `json:"auditLogPath,omitempty" flag:"audit-log-path"`
	AuditLogMaxAge                           *int32             `json:"auditLogMaxAge,omitempty" flag:"audit-log-maxage"`
	AuditLogMaxBackups                       *int32             `json:"auditLogMaxBackups,omitempty" flag:"audit-log-maxbackup"`
	AuditLogMaxSize                          *int32             `json:"auditLogMaxSize,omitempty" flag:"audit-log-maxsize"`
	AuditPolicyFile                          string             `json:"auditPolicyFile,omitempty" flag:"audit-policy-file"`
	AuditWebhookBatchBufferSize              *int32             `json:"auditWebhookBatchBufferSize,omitempty" flag:"audit-webhook-batch-buffer-size"`
	AuditWebhookBatchMaxSize                 *int32             `json:"auditWebhookBatchMaxSize,omitempty" flag:"audit-webhook-batch-max-size"`
	AuditWebhookBatchMaxWait                 *metav1.Duration   `json:"auditWebhookBatchMaxWait,omitempty" flag:"audit-webhook-batch-max-wait"`
	AuditWebhookBatchThrottleBurst           *int32             `json:"auditWebhookBatchThrottleBurst,omitempty" flag:"audit-webhook-batch-throttle-burst"`
	AuditWebhookBatchThrottleEnable          *bool              `json:"auditWebhookBatchThrottleEnable,omitempty" flag:"audit-webhook-batch-throttle-enable"`
	AuditWebhookBatchThrottleQPS             *resource.Quantity `json:"auditWebhookBatchThrottleQps,omitempty" flag:"audit-webhook-batch-throttle-qps"`
	AuditWebhookConfigFile                   string             `json:"auditWebhookConfigFile,omitempty" flag:"audit-webhook-config-file"`
	AuditWebhookInitialBackoff               *metav1.Duration   `json:"auditWebhookInitialBackoff,omitempty" flag:"audit-webhook-initial-backoff"`
	AuditWebhookMode                         string             `json:"auditWebhookMode,omitempty" flag:"audit-webhook-mode"`
	AuthenticationTokenWebhookConfigFile     *string            `json:"authenticationTokenWebhookConfigFile,omitempty" flag:"authentication-token-webhook-config-file"`
	AuthenticationTokenWebhookCacheTTL       *metav1.Duration   `json:"authenticationTokenWebhookCacheTtl,omitempty" flag:"authentication-token-webhook-cache-ttl"`
	AuthorizationMode                        *string            `json:"authorizationMode,omitempty" flag:"authorization-mode"`
	AuthorizationWebhookConfigFile           *string            `json:"authorizationWebhookConfigFile,omitempty" flag:"authorization-webhook-config-file"`
	AuthorizationWebhookCacheAuthorizedTTL   *metav1.Duration   `json:"authorizationWebhookCacheAuthorizedTTL,omitempty" flag:"authorization-webhook-cache-authorized-ttl"`
	AuthorizationWebhookCacheUnauthorizedTTL *metav1.Duration   `json:"authorizationWebhookCacheUnauthorizedTTL,omitempty" flag:"authorization-webhook-cache-unauthorized-ttl"`
	AuthorizationRbacSuperUser               *string            `json:"authorizationRbacSuperUser,omitempty" flag:"authorization-rbac-super-user"`
	// EncryptionProviderConfig is the path of the encryption configuration; it is set if spec.encryptionConfig is.
	EncryptionProviderConfig             *string  `json:"encryptionProviderConfig,omitempty" flag:"encryption-provider-config"`
	ExperimentalEncryptionProviderConfig *string  `json:"experimentalEncryptionProviderConfig,omitempty" flag:"experimental-encryption-provider-config"`
	RequestheaderUsernameHeaders         []string `json:"requestheaderUsernameHeaders,omitempty" flag:"requestheader-username-headers"`
	RequestheaderGroupHeaders            []string `json:"requestheaderGroupHeaders,omitempty" flag:"requestheader-group-headers"`
	RequestheaderExtraHeaderPrefixes     []string `json:"requestheaderExtraHeaderPrefixes,omitempty" flag:"requestheader-extra-headers-prefix"`
	RequestheaderClientCAFile            string   `json:"requestheaderClientCAFile,omitempty" flag:"requestheader-client-ca-file"`
	RequestheaderAllowedNames            []string `json:"requestheaderAllowedNames,omitempty" flag:"requestheader-allowed-names"`
	// FeatureGates switches features of the component on ("true") or off ("false").
	FeatureGates                 map[string]string `json:"featureGates,omitempty" flag:"feature-gates"`
	GoawayChance                 string            `json:"goawayChance,omitempty" flag:"goaway-chance"`
	EtcdQuorumRead               *bool             `json:"etcdQuorumRead,omitempty" flag:"etcd-quorum-read"`
	MaxRequestsInflight          int32             `json:"maxRequestsInflight,omitempty" flag:"max-requests-inflight (empty=0)"`
	MaxMutatingRequestsInflight  int32             `json:"maxMutatingRequestsInflight,omitempty" flag:"max-mutating-requests-inflight (empty=0)"`
	HTTP2MaxStreamsPerConnection *int32            `json:"http2MaxStreamsPerConnection,omitempty" flag:"http2-max-streams-per-connection"`
	RequestTimeout               *metav1.Duration  `json:"requestTimeout,omitempty" flag:"request-timeout"`
	StorageInitializationTimeout *metav1.Duration  `json:"storageInitializationTimeout,omitempty" flag:"storage-initialization-timeout"`
	MinRequestTimeout            *int32            `json:"minRequestTimeout,omitempty" flag:"min-request-timeout"`
	WatchCache                   *bool             `json:"watchCache,omitempty" flag:"watch-cache"`
	WatchCacheSizes              []string          `json:"watchCacheSizes,omitempty" flag:"watch-cache-sizes (empty=0)"`
	ServiceAccountKeyFile        []string          `json:"serviceAccountKeyFile,omitempty" flag:"service-account-key-file,repeat"`
	ServiceAccountSigningKeyFile *string           `json:"serviceAccountSigningKeyFile,omitempty" flag:"service-account-signing-key-file"`
	ServiceAccountIssuer         *string           `json:"serviceAccountIssuer,omitempty" flag:"service-account-issuer"`
	// AdditionalServiceAccountIssuers are accepted in tokens in addition to serviceAccountIssuer.
	AdditionalServiceAccountIssuers []string `json:"additionalServiceAccountIssuers,omitempty"`
	ServiceAccountJWKSURI           *string  `json:"serviceAccountJWKSURI,omitempty" flag:"service-account-jwks-uri"`
	APIAudiences                    []string `json:"apiAudiences,omitempty" flag:"api-audiences"`
	// CPURequest is the processor share that the pod reserves.
	CPURequest *resource.Quantity `json:"cpuRequest,omitempty"`
	// CPULimit is the most processor time that the pod gets.
	CPULimit *resource.Quantity `json:"cpuLimit,omitempty"`
	// MemoryRequest is the memory that the pod reserves.
	MemoryRequest *resource.Quantity `json:"memoryRequest,omitempty"`
	// MemoryLimit is the most memory that the pod gets.
	MemoryLimit                         *resource.Quantity `json:"memoryLimit,omitempty"`
	EventTTL                            *metav1.Duration   `json:"eventTTL,omitempty" flag:"event-ttl"`
	AuditDynamicConfiguration           *bool              `json:"auditDynamicConfiguration,omitempty" flag:"audit-dynamic-configuration"`
	EnableProfiling                     *bool              `json:"enableProfiling,omitempty" flag:"profiling"`
	EnableContentionProfiling           *bool              `json:"enableContentionProfiling,omitempty" flag:"contention-profiling"`
	CORSAllowedOrigins                  []string           `json:"corsAllowedOrigins,omitempty" flag:"cors-allowed-origins"`
	StrictTransportSecurityDirectives   []string           `json:"strictTransportSecurityDirectives,omitempty" flag:"strict-transport-security-directives"`
	DefaultNotReadyTolerationSeconds    *int64             `json:"defaultNotReadyTolerationSeconds,omitempty" flag:"default-not-ready-toleration-seconds"`
	DefaultUnreachableTolerationSeconds *int64             `json:"defaultUnreachableTolerationSeconds,omitempty" flag:"default-unreachable-toleration-seconds"`
	DeleteCollectionWorkers             int                `json:"deleteCollectionWorkers,omitempty" flag:"delete-collection-workers (empty=0)"`
	// Env are variables of the container.
	Env []ContainerEnvVar `json:"env,omitempty"`
}
