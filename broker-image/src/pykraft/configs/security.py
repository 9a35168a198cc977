"""The broker configs of authentication, authorization and encryption."""

from pykraft.configs.definition import (
    ConfigDef,
    ConfigType,
    UpdateMode,
    at_least,
    between,
    list_of,
    one_of,
    one_of_ignoring_case,
)

BOOLEAN = ConfigType.BOOLEAN
STRING = ConfigType.STRING
INT = ConfigType.INT
SHORT = ConfigType.SHORT
LONG = ConfigType.LONG
DOUBLE = ConfigType.DOUBLE
LIST = ConfigType.LIST
CLASS = ConfigType.CLASS
PASSWORD = ConfigType.PASSWORD
PER_BROKER = UpdateMode.PER_BROKER

SECURITY_CONFIGS = (
    ConfigDef("authorizer.class.name", STRING, ""),
    ConfigDef("connections.max.reauth.ms", LONG, 0),
    ConfigDef("delegation.token.expiry.check.interval.ms", LONG, 3_600_000, at_least(1)),
    ConfigDef("delegation.token.expiry.time.ms", LONG, 86_400_000, at_least(1)),
    ConfigDef("delegation.token.max.lifetime.ms", LONG, 604_800_000, at_least(1)),
    ConfigDef("delegation.token.secret.key", PASSWORD, None),
    ConfigDef(
        "principal.builder.class",
        CLASS,
        "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
        mode=PER_BROKER,
    ),
    ConfigDef("sasl.client.callback.handler.class", CLASS, None),
    ConfigDef("sasl.enabled.mechanisms", LIST, ("GSSAPI",), list_of(), mode=PER_BROKER),
    ConfigDef("sasl.jaas.config", PASSWORD, None, mode=PER_BROKER),
    ConfigDef("sasl.kerberos.kinit.cmd", STRING, "/usr/bin/kinit", mode=PER_BROKER),
    ConfigDef("sasl.kerberos.min.time.before.relogin", LONG, 60_000, mode=PER_BROKER),
    ConfigDef(
        "sasl.kerberos.principal.to.local.rules", LIST, ("DEFAULT",), list_of(), mode=PER_BROKER
    ),
    ConfigDef("sasl.kerberos.service.name", STRING, None, mode=PER_BROKER),
    ConfigDef("sasl.kerberos.ticket.renew.jitter", DOUBLE, 0.05, mode=PER_BROKER),
    ConfigDef("sasl.kerberos.ticket.renew.window.factor", DOUBLE, 0.8, mode=PER_BROKER),
    ConfigDef("sasl.login.callback.handler.class", CLASS, None),
    ConfigDef("sasl.login.class", CLASS, None),
    ConfigDef("sasl.login.connect.timeout.ms", INT, None),
    ConfigDef("sasl.login.read.timeout.ms", INT, None),
    ConfigDef("sasl.login.refresh.buffer.seconds", SHORT, 300, mode=PER_BROKER),
    ConfigDef("sasl.login.refresh.min.period.seconds", SHORT, 60, mode=PER_BROKER),
    ConfigDef("sasl.login.refresh.window.factor", DOUBLE, 0.8, mode=PER_BROKER),
    ConfigDef("sasl.login.refresh.window.jitter", DOUBLE, 0.05, mode=PER_BROKER),
    ConfigDef("sasl.login.retry.backoff.max.ms", LONG, 10_000),
    ConfigDef("sasl.login.retry.backoff.ms", LONG, 100),
    ConfigDef("sasl.mechanism.controller.protocol", STRING, "GSSAPI"),
    ConfigDef("sasl.mechanism.inter.broker.protocol", STRING, "GSSAPI", mode=PER_BROKER),
    ConfigDef(
        "sasl.oauthbearer.assertion.algorithm",
        STRING,
        "RS256",
        one_of_ignoring_case("ES256", "RS256"),
    ),
    ConfigDef("sasl.oauthbearer.assertion.claim.aud", STRING, None),
    ConfigDef("sasl.oauthbearer.assertion.claim.exp.seconds", INT, 300, between(0, 86_400)),
    ConfigDef("sasl.oauthbearer.assertion.claim.iss", STRING, None),
    ConfigDef("sasl.oauthbearer.assertion.claim.jti.include", BOOLEAN, False),
    ConfigDef("sasl.oauthbearer.assertion.claim.nbf.seconds", INT, 60, between(0, 3600)),
    ConfigDef("sasl.oauthbearer.assertion.claim.sub", STRING, None),
    ConfigDef("sasl.oauthbearer.assertion.file", STRING, None),
    ConfigDef("sasl.oauthbearer.assertion.private.key.file", STRING, None),
    ConfigDef("sasl.oauthbearer.assertion.private.key.passphrase", PASSWORD, None),
    ConfigDef("sasl.oauthbearer.assertion.template.file", STRING, None),
    ConfigDef("sasl.oauthbearer.client.credentials.client.id", STRING, None),
    ConfigDef("sasl.oauthbearer.client.credentials.client.secret", PASSWORD, None),
    ConfigDef("sasl.oauthbearer.clock.skew.seconds", INT, 30),
    ConfigDef("sasl.oauthbearer.expected.audience", LIST, (), list_of()),
    ConfigDef("sasl.oauthbearer.expected.issuer", STRING, None),
    ConfigDef("sasl.oauthbearer.jwks.endpoint.refresh.ms", LONG, 3_600_000),
    ConfigDef("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", LONG, 10_000),
    ConfigDef("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", LONG, 100),
    ConfigDef("sasl.oauthbearer.jwks.endpoint.url", STRING, None),
    ConfigDef(
        "sasl.oauthbearer.jwt.retriever.class",
        CLASS,
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
    ),
    ConfigDef(
        "sasl.oauthbearer.jwt.validator.class",
        CLASS,
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator",
    ),
    ConfigDef("sasl.oauthbearer.scope", STRING, None),
    ConfigDef("sasl.oauthbearer.scope.claim.name", STRING, "scope"),
    ConfigDef("sasl.oauthbearer.sub.claim.name", STRING, "sub"),
    ConfigDef("sasl.oauthbearer.token.endpoint.url", STRING, None),
    ConfigDef("sasl.server.callback.handler.class", CLASS, None),
    ConfigDef("sasl.server.max.receive.size", INT, 524_288),
    ConfigDef(
        "security.inter.broker.protocol",
        STRING,
        "PLAINTEXT",
        one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    ),
    ConfigDef("security.providers", STRING, None),
    ConfigDef("ssl.allow.dn.changes", BOOLEAN, False),
    ConfigDef("ssl.allow.san.changes", BOOLEAN, False),
    ConfigDef("ssl.cipher.suites", LIST, (), list_of(), mode=PER_BROKER),
    ConfigDef(
        "ssl.client.auth", STRING, "none", one_of("required", "requested", "none"), mode=PER_BROKER
    ),
    ConfigDef("ssl.enabled.protocols", LIST, ("TLSv1.2", "TLSv1.3"), list_of(), mode=PER_BROKER),
    ConfigDef("ssl.endpoint.identification.algorithm", STRING, "https", mode=PER_BROKER),
    ConfigDef("ssl.engine.factory.class", CLASS, None, mode=PER_BROKER),
    ConfigDef("ssl.key.password", PASSWORD, None, mode=PER_BROKER),
    ConfigDef("ssl.keymanager.algorithm", STRING, "SunX509", mode=PER_BROKER),
    ConfigDef("ssl.keystore.certificate.chain", PASSWORD, None, mode=PER_BROKER),
    ConfigDef("ssl.keystore.key", PASSWORD, None, mode=PER_BROKER),
    ConfigDef("ssl.keystore.location", STRING, None, mode=PER_BROKER),
    ConfigDef("ssl.keystore.password", PASSWORD, None, mode=PER_BROKER),
    ConfigDef("ssl.keystore.type", STRING, "JKS", mode=PER_BROKER),
    ConfigDef("ssl.principal.mapping.rules", STRING, "DEFAULT"),
    ConfigDef("ssl.protocol", STRING, "TLSv1.3", mode=PER_BROKER),
    ConfigDef("ssl.provider", STRING, None, mode=PER_BROKER),
    ConfigDef("ssl.secure.random.implementation", STRING, None, mode=PER_BROKER),
    ConfigDef("ssl.trustmanager.algorithm", STRING, "PKIX", mode=PER_BROKER),
    ConfigDef("ssl.truststore.certificates", PASSWORD, None, mode=PER_BROKER),
    ConfigDef("ssl.truststore.location", STRING, None, mode=PER_BROKER),
    ConfigDef("ssl.truststore.password", PASSWORD, None, mode=PER_BROKER),
    ConfigDef("ssl.truststore.type", STRING, "JKS", mode=PER_BROKER),
)
